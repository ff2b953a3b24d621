"""The search for the highest rate: found where it is, and told where there is none."""

import random
from collections.abc import Callable
from dataclasses import replace
from itertools import takewhile
from typing import Any

import pytest

from benchmarks.load.arrivals import poisson
from benchmarks.load.find_max import LOWEST_RATE_PER_S, Interrupted, Maximum, Probe, find_max
from benchmarks.load.processes import Run
from benchmarks.load.settings import LoadSettings
from benchmarks.load.summary import summarise
from benchmarks.load.verdict import Exit, of_maximum

NOTHING = summarise(Run(LoadSettings(), "r"))
SLO = LoadSettings.model_validate({"slo": {"latency_s": 1.0}})
SHARE = 0.99


def probe_of(rate_per_s: float, good: int, judged: int, **more: Any) -> Probe:
    fields = {"is_broken_off": False, "summary": NOTHING, "stage_means_s": {}} | more
    return Probe(rate_per_s, good, judged, **fields)


def searched(
    meets: Callable[[float, int], bool],
    *,
    start: float = 1.0,
    highest: float = 10_000.0,
    repeats: int = 3,
    stages: Callable[[float], dict[str, float]] = lambda _: {},
) -> Maximum:
    def probe(rate_per_s: float, arrivals: int) -> Probe:
        good = 100 if meets(rate_per_s, arrivals) else 90
        return probe_of(rate_per_s, good, 100, stage_means_s=stages(rate_per_s))

    return find_max(probe, start, highest, repeats, SHARE)


@pytest.mark.parametrize("capacity", [0.07, 0.9, 37.0, 2_345.0])
@pytest.mark.parametrize("start", [0.5, 30.0, 5_000.0])
def test_the_capacity_is_found_within_a_step(capacity: float, start: float) -> None:
    maximum = searched(lambda rate, _: rate <= capacity, start=start)
    assert maximum.rate_per_s is not None
    assert capacity / 1.041 <= maximum.rate_per_s <= capacity
    assert maximum.is_steady and maximum.is_bounded and len(maximum.rates_per_s) == 3
    assert len(maximum.probes) < 60


def test_repeats_start_where_the_first_search_ended() -> None:
    once = len(searched(lambda rate, _: rate <= 2_000, repeats=1).probes)
    thrice = len(searched(lambda rate, _: rate <= 2_000, repeats=3).probes)
    assert thrice - once == 2 * 2 * 3, "the two rates it lies between, three times each"


def queue(service_s: float, slo_s: float) -> Callable[[float, int], Probe]:
    """A server that takes as long for each request, one after the other, under Poisson arrivals."""

    def probe(rate_per_s: float, arrivals: int) -> Probe:
        free_s, good, judged = 0.0, 0, 0
        for at_s in takewhile(lambda at_s: at_s < 40.0, poisson(rate_per_s, arrivals)):
            free_s = max(free_s, at_s) + service_s
            judged += 1
            good += free_s - at_s <= slo_s
        return probe_of(rate_per_s, good, judged)

    return probe


def test_searches_of_a_server_that_does_not_change_find_the_same_whatever_the_luck() -> None:
    """20 a second at most; within ten times the service time, 99 % of the requests at 15.5."""
    maximum = find_max(queue(0.05, 0.5), 3.0, 1_000.0, 5, SHARE)
    assert len(set(maximum.rates_per_s)) == 1 and maximum.is_steady
    assert maximum.rate_per_s == pytest.approx(15.5, rel=0.15)


def test_a_server_that_is_a_little_slower_or_faster_each_time_is_found_within_a_tenth() -> None:
    noise = random.Random(1)

    def probe(rate_per_s: float, arrivals: int) -> Probe:
        return queue(0.05 * noise.uniform(0.97, 1.03), 0.5)(rate_per_s, arrivals)

    found = [find_max(probe, 3.0, 1_000.0, 1, SHARE).rate_per_s or 0.0 for _ in range(7)]
    middle = sorted(found)[3]
    assert all(abs(rate / middle - 1) <= 0.1 for rate in found), found


def test_one_unlucky_probe_is_outvoted_by_those_that_confirm() -> None:
    unlucky = iter([False, False, True])

    def probe(rate_per_s: float, arrivals: int) -> Probe:
        good = 1_000 if rate_per_s <= 37 else 800
        if 35 < rate_per_s <= 37 and next(unlucky, False):
            good = 975
        return probe_of(rate_per_s, good, 1_000)

    assert find_max(probe, 36.0, 1_000.0, 1, SHARE).rate_per_s == 36.0


def test_a_rate_that_passed_once_by_luck_is_not_kept() -> None:
    def probe(rate_per_s: float, arrivals: int) -> Probe:
        good = 100 if rate_per_s <= 30 or (rate_per_s <= 33 and arrivals == 0) else 90
        return probe_of(rate_per_s, good, 100)

    found = find_max(probe, 8.0, 1_000.0, 1, SHARE).rate_per_s
    assert found is not None and 30 / 1.041 <= found <= 30


def test_a_probe_that_was_broken_off_needs_no_confirmation() -> None:
    def probe(rate_per_s: float, arrivals: int) -> Probe:
        is_over = rate_per_s > 37
        return probe_of(rate_per_s, 60 if is_over else 100, 100, is_broken_off=is_over)

    probes = find_max(probe, 30.0, 1_000.0, 1, SHARE).probes
    beyond = [one.rate_per_s for one in probes if one.rate_per_s > 37]
    assert len(beyond) == len(set(beyond))


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

    def probe(rate_per_s: float, arrivals: int) -> Probe:
        is_over = rate_per_s >= 40
        return probe_of(rate_per_s, 0 if is_over else 9, 9, summary=late if is_over else NOTHING)

    maximum = find_max(probe, 1.0, 100.0, 1, SHARE)
    assert maximum.is_limited_by_generator
    sentence = of_maximum(maximum, SLO).sentence
    assert sentence.startswith("at least") and "generator itself was late" in sentence
    assert not searched(lambda rate, _: rate < 40).is_limited_by_generator


def test_an_interrupted_search_keeps_what_it_has() -> None:
    tried = 0

    def probe(rate_per_s: float, arrivals: int) -> Probe:
        nonlocal tried
        tried += 1
        if tried == 5:
            raise Interrupted
        return probe_of(rate_per_s, 9 if rate_per_s < 3 else 0, 9)

    maximum = find_max(probe, 1.0, 100.0, 3, SHARE)
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
