"""Arrival processes: the rate and the spread that were asked for, again and again from a seed."""

from itertools import islice, pairwise
from pathlib import Path
from statistics import fmean, pstdev

import pytest

from benchmarks.load import arrivals
from benchmarks.load.arrivals import Arrivals
from benchmarks.load.generator import due_times
from benchmarks.load.settings import ArrivalSettings, LoadSettings
from benchmarks.load.workloads import WorkloadName


def gaps(times_s: list[float]) -> list[float]:
    return [later - sooner for sooner, later in pairwise(times_s)]


@pytest.mark.parametrize("cv", [0.5, 1.0, 3.0])
def test_gamma_gaps_have_the_mean_and_spread_asked_for(cv: float) -> None:
    found = gaps(list(islice(arrivals.gamma(50.0, cv, seed=1), 40_000)))
    assert fmean(found) == pytest.approx(1 / 50, rel=0.05)
    assert pstdev(found) / fmean(found) == pytest.approx(cv, rel=0.08)


def test_poisson_gaps_do_not_remember() -> None:
    found = gaps(list(islice(arrivals.poisson(10.0, seed=3), 40_000)))
    assert pstdev(found) / fmean(found) == pytest.approx(1.0, rel=0.03)
    long, all_ = [gap for gap in found if gap > 0.1], len(found)
    assert len(long) / all_ == pytest.approx(0.3679, abs=0.01)  # exp(-1)


def test_constant_arrivals_are_equally_far_apart() -> None:
    assert list(islice(arrivals.constant(4.0), 5)) == [0.0, 0.25, 0.5, 0.75, 1.0]


@pytest.mark.parametrize(("first", "last"), [(0.0, 100.0), (100.0, 0.0), (50.0, 50.0), (20.0, 80.0)])
def test_a_ramp_sends_its_area_and_shifts_it_to_the_faster_half(first: float, last: float) -> None:
    times_s = list(arrivals.ramp(first, last, 100.0, seed=5))
    assert len(times_s) == pytest.approx((first + last) / 2 * 100, rel=0.05)
    assert times_s == sorted(times_s) and times_s[-1] <= 100.0
    early = sum(time_s < 50 for time_s in times_s) / len(times_s)
    middle = (first + last) / 2
    assert early == pytest.approx((first + middle) / 2 * 50 / (middle * 100), abs=0.03)


@pytest.mark.parametrize("kind", [Arrivals.POISSON, Arrivals.GAMMA, Arrivals.RAMP])
def test_the_seed_decides_the_times(kind: Arrivals) -> None:
    def times(seed: int) -> list[float]:
        wanted = ArrivalSettings(kind=kind, rate_per_s=20, rate_to_per_s=40)
        return list(islice(due_times(LoadSettings(arrivals=wanted, seed=seed)), 50))

    assert times(7) == times(7)
    assert times(7) != times(8)


@pytest.mark.parametrize("kind", [Arrivals.POISSON, Arrivals.GAMMA, Arrivals.CONSTANT, Arrivals.RAMP])
def test_nothing_is_due_at_rate_0(kind: Arrivals) -> None:
    wanted = ArrivalSettings(kind=kind, rate_per_s=0)
    assert list(due_times(LoadSettings(arrivals=wanted))) == []


def test_w7_sends_twice_the_rate() -> None:
    settings = LoadSettings.model_validate({"workload": {"name": WorkloadName.W7}})
    assert settings.offered_per_s == 2 * settings.arrivals.rate_per_s


def test_a_trace_is_numbers_or_records_in_any_order(tmp_path: Path) -> None:
    path = tmp_path / "trace"
    path.write_text('0.5\n{"at_s": 0.25, "outcome": "ok"}\n\n2\n', "utf-8")
    assert arrivals.recorded(path) == [0.25, 0.5, 2.0]


@pytest.mark.parametrize("line", ["soon", "-1", "NaN", "Infinity", "{}", "[1]", '{"at_s": null}'])
def test_a_line_that_is_no_time_is_named(tmp_path: Path, line: str) -> None:
    path = tmp_path / "trace"
    path.write_text(f"0.1\n{line}\n", "utf-8")
    with pytest.raises(ValueError, match="trace:2"):
        arrivals.recorded(path)
