import random

import pytest

from deployments.backends.batching.cost_model import CostModel, Load
from deployments.backends.batching.forecast import Forecast


def load_of(*lengths: int) -> Load:
    load = Load()
    for length in lengths:
        load = load.with_pair(length)
    return load


def true_seconds(load: Load) -> float:
    return 0.02 + 4e-5 * load.tokens + 3e-8 * load.squares


def random_load(rng: random.Random) -> Load:
    return load_of(*(rng.randint(20, 512) for _ in range(rng.randint(1, 40))))


def learned(rng: random.Random, batches: int, stall_share: float = 0.0) -> CostModel:
    model = CostModel()
    for _ in range(batches):
        load = random_load(rng)
        stall = 10.0 if rng.random() < stall_share else 0.0
        model.observe(load, true_seconds(load) * rng.uniform(0.9, 1.1) + stall)
    return model


def mean_relative_error(model: CostModel, rng: random.Random) -> float:
    loads = [random_load(rng) for _ in range(200)]
    return sum(abs(model.seconds(load) / true_seconds(load) - 1) for load in loads) / len(loads)


@pytest.mark.parametrize("seed", range(5))
def test_learns_the_device_from_noisy_batches(seed: int) -> None:
    rng = random.Random(seed)
    assert mean_relative_error(learned(rng, 200), rng) < 0.05


@pytest.mark.parametrize("seed", range(5))
def test_a_stalled_batch_in_fifty_does_not_mislead_it(seed: int) -> None:
    rng = random.Random(seed)
    assert mean_relative_error(learned(rng, 200, stall_share=0.02), rng) < 0.1


def test_follows_a_device_that_has_become_a_hundred_times_slower() -> None:
    rng = random.Random(1)
    model = learned(rng, 200)
    for _ in range(20):
        load = random_load(rng)
        model.observe(load, 100 * true_seconds(load))
    probe = load_of(*[200] * 20)
    assert model.seconds(probe) == pytest.approx(100 * true_seconds(probe), rel=0.15)


def test_stays_finite_and_right_when_every_batch_is_the_same() -> None:
    model = CostModel()
    load = load_of(100, 100)
    for _ in range(5_000):
        model.observe(load, 0.05)
    assert model.seconds(load) == pytest.approx(0.05)


def test_a_larger_load_never_costs_less() -> None:
    model = learned(random.Random(3), 50)
    costs = [model.seconds(load_of(*[100] * pairs)) for pairs in range(1, 60)]
    assert costs == sorted(costs)


@pytest.mark.parametrize("seconds", [0.0, -1.0, float("nan"), float("inf")])
def test_an_impossible_time_teaches_nothing(seconds: float) -> None:
    model = CostModel()
    model.observe(load_of(100), seconds)
    assert model.observations == 0
    assert model.seconds(load_of(100)) == 0.0


def test_a_load_of_several_batches_pays_the_fixed_cost_for_each() -> None:
    forecast = Forecast(max_tokens_per_batch=1000)
    for pairs in range(1, 11):
        forecast.batch_starts(load_of(*[100] * pairs), now_s=0.0)
        forecast.batch_ends(0.05 + 0.001 * pairs, now_s=0.0)
    assert forecast.seconds(load_of(*[100] * 30)) == pytest.approx(3 * 0.05 + 30 * 0.001, rel=0.05)


def test_the_running_batch_delays_what_comes_after_it() -> None:
    forecast = Forecast(max_tokens_per_batch=1000)
    load = load_of(*[100] * 10)
    for _ in range(10):
        forecast.batch_starts(load, now_s=0.0)
        forecast.batch_ends(0.2, now_s=0.0)
    forecast.batch_starts(load, now_s=1.0)
    assert forecast.seconds_until_done(load, now_s=1.05) == pytest.approx(0.15 + 0.2, rel=0.05)
    assert forecast.seconds_until_done(load, now_s=9.0) == pytest.approx(0.2, rel=0.05)


def test_predictions_are_trusted_only_while_batches_run() -> None:
    forecast = Forecast(max_tokens_per_batch=1000)
    assert not forecast.is_trusted(now_s=0.0)
    for _ in range(10):
        forecast.batch_starts(load_of(100), now_s=5.0)
        forecast.batch_ends(0.2, now_s=5.0)
    assert forecast.is_trusted(now_s=6.0)
    assert not forecast.is_trusted(now_s=60.0)
    forecast.batch_starts(load_of(100), now_s=60.0)
    assert forecast.is_trusted(now_s=90.0)
