"""What a soak calls growth: made-up series, with the noise that real ones have."""

import random

import pytest

from benchmarks.soak import Memory, Soaked, growth


def series(grows_mib: float, noise_mib: float, seed: int) -> list[tuple[float, float]]:
    """Half an hour of samples that are like their neighbours, on 500 MiB."""
    generator, wander = random.Random(seed), 0.0
    samples = []
    for number in range(900):
        wander = 0.9 * wander + generator.gauss(0.0, noise_mib)
        samples.append((2.0 * number, 500.0 + grows_mib * number / 900 + wander))
    return samples


def memory(samples: list[tuple[float, float]]) -> Memory:
    return Memory("x", 500.0, *growth(samples))


def test_a_leak_is_found_under_noise() -> None:
    found = [memory(series(30.0, 2.0, seed)) for seed in range(50)]
    assert all(each.grows for each in found)
    assert sum(each.grew_mib for each in found) / 50 == pytest.approx(30.0, rel=0.1)


def test_noise_is_no_leak() -> None:
    assert not any(memory(series(0.0, 2.0, seed)).grows for seed in range(200))


def test_a_little_steady_growth_is_noise() -> None:
    assert not memory(series(5.0, 0.01, seed=1)).grows


def test_too_few_samples_say_nothing() -> None:
    assert growth([(0.0, 1.0)] * 5) == (0.0, 0.0)


@pytest.mark.parametrize(
    ("outcomes", "requests", "stuck", "well"),
    [
        ({"ok": 9, "degraded": 1}, 10, 0, True),
        ({"ok": 9, "shed": 1}, 10, 0, True),
        ({"ok": 9, "failed": 1}, 10, 0, False),
        ({"ok": 10}, 10, 1, False),
        ({}, 0, 0, False),
    ],
)
def test_a_soak_is_well_when_nothing_failed_hung_or_grew(
    outcomes: dict[str, int], requests: int, stuck: int, well: bool
) -> None:
    soaked = Soaked(1.0, 1.0, requests, outcomes, 0.1, 0.2, stuck, [Memory("x", 100.0, 0.5, 0.1)])
    assert soaked.is_well is well
