import itertools

import pytest

from deployments.admission.latency_curve import LatencyCurve


def seen(levels: dict[float, float], times: int = 10) -> LatencyCurve:
    curve = LatencyCurve()
    for load, seconds in levels.items():
        for _ in range(times):
            curve.observe(load, seconds)
    return curve


def test_nothing_is_believed_before_enough_was_seen() -> None:
    curve = seen({1: 1.0}, times=7)
    assert not curve.is_known
    curve.observe(1, 1.0)
    assert curve.is_known
    assert LatencyCurve().seconds(5) == 0.0


def test_free_slots_cost_nothing_and_beyond_them_time_grows_with_the_load() -> None:
    curve = seen({1: 1.0, 2: 1.0, 4: 1.0, 8: 1.0, 16: 2.0, 32: 4.0})
    assert curve.seconds(6) == 1.0
    assert curve.seconds(12) == pytest.approx(1.5)
    assert curve.seconds(128) == pytest.approx(16.0)


def test_more_work_never_takes_less_nor_twice_of_it_more_than_twice_as_long() -> None:
    curve = seen({1: 1.0, 2: 5.0, 4: 0.1, 8: 100.0})
    times_s = [curve.seconds(load) for load in (1, 2, 4, 8)]
    assert times_s == sorted(times_s)
    assert all(later <= 2 * earlier for earlier, later in itertools.pairwise(times_s))


def test_a_replica_more_is_noticed_though_the_high_loads_are_no_longer_reached() -> None:
    curve = seen({1: 1.0, 2: 2.0, 4: 4.0, 8: 8.0, 16: 16.0})
    for _ in range(60):
        curve.observe(2, 1.0)
        curve.observe(4, 2.0)
    assert curve.seconds(16) <= 8.1


def test_one_client_that_reads_slowly_does_not_make_the_stage_slow() -> None:
    curve = seen({1: 1.0}, times=50)
    curve.observe(1, 300.0)
    assert curve.seconds(1) < 1.5


def test_less_than_was_ever_seen_takes_no_more() -> None:
    assert seen({4: 2.0}).seconds(0.01) == pytest.approx(2.0)
