"""The search for the highest rate: found where it is, and told where there is none."""

import random
from collections.abc import Callable
from dataclasses import replace

import pytest

from benchmarks.load.find_max import LOWEST_RATE_PER_S, Interrupted, Maximum, Probe, find_max
from benchmarks.load.processes import Run
from benchmarks.load.settings import LoadSettings
from benchmarks.load.summary import summarise
from benchmarks.load.verdict import Exit, of_maximum

NOTHING = summarise(Run(LoadSettings(), "r"))
SLO = LoadSettings.model_validate({"slo": {"latency_s": 1.0}})


def searched(
    meets: Callable[[float, int], bool],
    *,
    start: float = 1.0,
    highest: float = 10_000.0,
    repeats: int = 3,
    stages: Callable[[float], dict[str, float]] = lambda _: {},
) -> Maximum:
    def probe(rate_per_s: float, number: int) -> Probe:
        return Probe(rate_per_s, meets(rate_per_s, number), NOTHING, stages(rate_per_s))

    return find_max(probe, start, highest, repeats)


@pytest.mark.parametrize("capacity", [0.07, 0.9, 37.0, 2_345.0])
@pytest.mark.parametrize("start", [0.5, 30.0, 5_000.0])
def test_the_capacity_is_found_within_the_bracket(capacity: float, start: float) -> None:
    maximum = searched(lambda rate, _: rate <= capacity, start=start)
    assert maximum.rate_per_s is not None
    assert capacity / 1.06 <= maximum.rate_per_s <= capacity
    assert maximum.is_steady and maximum.is_bounded and len(maximum.rates_per_s) == 3
    assert len(maximum.probes) < 40


def test_repeats_start_near_what_was_found() -> None:
    once = len(searched(lambda rate, _: rate <= 2_000, repeats=1).probes)
    thrice = len(searched(lambda rate, _: rate <= 2_000, repeats=3).probes)
    assert thrice - once < 2 * once


def test_searches_that_do_not_agree_are_called_unsteady() -> None:
    noise = random.Random(3)
    maximum = searched(lambda rate, _: rate <= 100 * noise.uniform(0.5, 1.5), repeats=5)
    assert not maximum.is_steady
    assert "too wide" in of_maximum(maximum, SLO).sentence


def test_no_rate_at_all() -> None:
    maximum = searched(lambda *_: False, start=8.0)
    assert maximum.rate_per_s is None and not maximum.is_steady
    assert min(probe.rate_per_s for probe in maximum.probes) < 2 * LOWEST_RATE_PER_S
    verdict = of_maximum(maximum, SLO)
    assert verdict.exit_code is Exit.NOTHING_ANSWERED, "for nothing was answered either"
    assert "no rate keeps to the SLO" in verdict.sentence


def test_a_rate_beyond_what_can_be_sent_is_a_lower_bound() -> None:
    maximum = searched(lambda *_: True, highest=64.0)
    assert (maximum.rate_per_s, maximum.is_bounded) == (64.0, False)
    assert of_maximum(maximum, SLO).sentence.startswith("at least 64")


def test_a_rate_that_the_generator_could_not_send_says_nothing_of_the_server() -> None:
    late = replace(NOTHING, is_generator_late=True)

    def probe(rate_per_s: float, number: int) -> Probe:
        return Probe(rate_per_s, rate_per_s < 40, late if rate_per_s >= 40 else NOTHING, {})

    maximum = find_max(probe, 1.0, 100.0, 1)
    assert maximum.is_limited_by_generator
    sentence = of_maximum(maximum, SLO).sentence
    assert sentence.startswith("at least") and "generator itself was late" in sentence
    assert not searched(lambda rate, _: rate < 40).is_limited_by_generator


def test_an_interrupted_search_keeps_what_it_has() -> None:
    def probe(rate_per_s: float, number: int) -> Probe:
        if number == 4:
            raise Interrupted
        return Probe(rate_per_s, rate_per_s < 3, NOTHING, {})

    maximum = find_max(probe, 1.0, 100.0, 3)
    assert maximum.is_interrupted and len(maximum.probes) == 4
    assert of_maximum(maximum, SLO).exit_code is Exit.INTERRUPTED


def test_the_bottleneck_is_the_stage_that_grows_not_the_longest() -> None:
    def stages(rate: float) -> dict[str, float]:
        return {"generate": 2.0, "evaluate": 0.1 + (3.0 if rate > 50 else 0.0), "search": 0.5}

    maximum = searched(lambda rate, _: rate <= 50, stages=stages)
    assert maximum.bottleneck == "evaluate"
    assert maximum.bottleneck_growth_s == pytest.approx(3.0)


def test_without_a_rate_that_keeps_to_the_slo_the_longest_stage_is_named() -> None:
    maximum = searched(lambda *_: False, stages=lambda _: {"generate": 2.0, "search": 0.5})
    assert maximum.bottleneck == "generate"
