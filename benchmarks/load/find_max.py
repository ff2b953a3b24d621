"""The highest rate that keeps to the SLO: found by doubling and bisection, confirmed, found again.

Whether a rate keeps to the SLO depends on the luck of its arrivals: on a server that never changes, a
minute of Poisson arrivals at a hundred different seeds gives maxima a third apart. Three things make a
search repeatable. Rates lie on a grid, so that requests sent at one rate can be counted together. The
two rates between which the answer lies are sent again, in turn, with other arrivals, and all their
requests count. And the n-th probe of any rate in any search has the same arrivals and actions, though
other texts, so that searches differ by the server, not by luck (common random numbers).
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from statistics import median_low

from benchmarks.load.summary import Summary

_STEP = 1.04
"""Ratio between neighbouring rates of the grid."""
_STRIDE = 16
"""Steps that a first search takes at once: a little less than a doubling."""
_CONFIRMATIONS = 3
"""Probes of each of the two rates that a search ends with."""
_STEADY_SPREAD = 0.10
_MOST_PROBES = 60
LOWEST_RATE_PER_S = 0.01


@dataclass(frozen=True, slots=True)
class Probe:
    """One rate that was tried; broken off, it had failed more than any luck of others makes good."""

    rate_per_s: float
    good: int
    judged: int
    is_broken_off: bool
    summary: Summary
    stage_means_s: Mapping[str, float]

    def meets(self, share: float) -> bool:
        """Whether this probe alone had so many good requests."""
        return not self.is_broken_off and 0 < share * self.judged <= self.good


@dataclass(frozen=True, slots=True)
class Maximum:
    """What the searches found; `rate_per_s` is the middle one, None where no rate meets the SLO.

    Limited by the generator, it is a lower bound: beyond it the generator itself was late.
    """

    rate_per_s: float | None
    rates_per_s: tuple[float, ...]
    spread: float
    is_steady: bool
    is_bounded: bool
    is_limited_by_generator: bool
    bottleneck: str | None
    bottleneck_growth_s: float
    probes: tuple[Probe, ...]
    is_interrupted: bool = False


class Interrupted(Exception):
    """A probe was broken off by its user."""


Prober = Callable[[float, int], Probe]
"""Tries a rate; the second argument numbers the arrivals. Raises Interrupted."""


def allowed_failures(due: float, share: float) -> float:
    """Failures of one probe after which its rate is lost, however well its confirmations go."""
    return _CONFIRMATIONS * 1.2 * (1 - share) * due + 1


def find_max(
    probe: Prober, from_per_s: float, highest_per_s: float, repeats: int, share: float
) -> Maximum:
    """Search `repeats` times, each after the first from what was found before.

    `share` of the requests must be good. Probes are counted, so that a search ends.
    """
    found: list[float] = []
    probes: list[Probe] = []
    is_bounded, is_interrupted = True, False
    grid = _Grid(min(max(from_per_s, LOWEST_RATE_PER_S), highest_per_s), highest_per_s)
    place, stride = 0, _STRIDE
    try:
        for _ in range(repeats):
            search = _Search(probe, grid, share, probes)
            highest = search.run(place, stride)
            is_bounded = is_bounded and search.is_bounded
            if highest is None:
                break
            found.append(grid.rate_per_s(highest))
            place, stride = highest, 1
    except Interrupted:
        is_interrupted = True
    middle = median_low(found) if found else None
    spread = (max(found) - min(found)) / middle if middle else 0.0
    beyond = _lowest([one for one in probes if one.rate_per_s > (middle or 0.0)])
    bottleneck, growth_s = _bottleneck(probes, beyond)
    return Maximum(
        rate_per_s=middle,
        rates_per_s=tuple(found),
        spread=spread,
        is_steady=len(found) == repeats > 1 and spread <= _STEADY_SPREAD,
        is_bounded=is_bounded,
        is_limited_by_generator=any(one.summary.is_generator_late for one in beyond),
        bottleneck=bottleneck,
        bottleneck_growth_s=growth_s,
        probes=tuple(probes),
        is_interrupted=is_interrupted,
    )


@dataclass(frozen=True, slots=True)
class _Grid:
    """Rates a step apart, from the one that a search begins with; none above the highest allowed."""

    first_per_s: float
    highest_per_s: float

    def rate_per_s(self, place: int) -> float:
        return min(self.first_per_s * _STEP**place, self.highest_per_s)

    def is_top(self, place: int) -> bool:
        return self.rate_per_s(place) >= self.highest_per_s

    def is_off(self, place: int) -> bool:
        return self.rate_per_s(place) < LOWEST_RATE_PER_S


@dataclass(slots=True)
class _Tally:
    """All requests that one search has sent at one rate."""

    good: int = 0
    judged: int = 0
    probes: int = 0
    is_lost: bool = False

    def meets(self, share: float) -> bool:
        return not self.is_lost and 0 < share * self.judged <= self.good

    @property
    def is_confirmed(self) -> bool:
        return self.is_lost or self.probes >= _CONFIRMATIONS


@dataclass(slots=True)
class _Search:
    """One search, by the places of rates on the grid."""

    probe: Prober
    grid: _Grid
    share: float
    probes: list[Probe]
    is_bounded: bool = True
    tallies: dict[int, _Tally] = field(default_factory=dict)
    left: int = _MOST_PROBES

    def run(self, place: int, stride: int) -> int | None:
        """The highest place that meets the SLO, None if there is none."""
        good, bad = self._bracket(place, stride)
        while good is not None and bad is not None and self.left > 0:
            if bad - good > 1:
                middle = (good + bad) // 2
                good, bad = (middle, bad) if self._meets(middle) else (good, middle)
                continue
            doubtful = [p for p in (good, bad) if not self._tally(p).is_confirmed]
            if not doubtful:
                break
            self._try(min(doubtful, key=lambda p: self._tally(p).probes))
            # what was found before may have been luck: then the answer lies a step beside
            if not self._meets(good):
                good, bad = self._below(good), good
            elif self._meets(bad):
                good, bad = bad, self._above(bad)
        self.is_bounded = bad is not None
        return good

    def _bracket(self, place: int, stride: int) -> tuple[int | None, int | None]:
        """A place that meets the SLO and one that does not, at most `stride` apart."""
        good: int | None = None
        bad: int | None = None
        next_: int | None = place
        while next_ is not None and self.left > 0:
            if self._meets(next_):
                good = next_
                next_ = self._above(good, stride) if bad is None else None
            else:
                bad = next_
                next_ = self._below(bad, stride) if good is None else None
        return good, bad

    def _above(self, place: int, stride: int = 1) -> int | None:
        """The place so many steps up, the highest there is, or None above that."""
        if self.grid.is_top(place):
            return None
        while stride > 1 and self.grid.is_top(place + stride - 1):
            stride -= 1
        return place + stride

    def _below(self, place: int, stride: int = 1) -> int | None:
        return None if self.grid.is_off(place - stride) else place - stride

    def _meets(self, place: int) -> bool:
        if not self._tally(place).probes:
            self._try(place)
        return self._tally(place).meets(self.share)

    def _tally(self, place: int) -> _Tally:
        return self.tallies.setdefault(place, _Tally())

    def _try(self, place: int) -> None:
        tally = self._tally(place)
        probe = self.probe(self.grid.rate_per_s(place), tally.probes)
        self.probes.append(probe)
        self.left -= 1
        tally.good += probe.good
        tally.judged += probe.judged
        tally.probes += 1
        tally.is_lost = tally.is_lost or probe.is_broken_off


def _lowest(probes: list[Probe]) -> list[Probe]:
    """Those at the lowest rate."""
    lowest = min((probe.rate_per_s for probe in probes), default=0.0)
    return [probe for probe in probes if probe.rate_per_s == lowest]


def _bottleneck(probes: list[Probe], beyond: list[Probe]) -> tuple[str | None, float]:
    """The stage that an answer waits longer in, from the lowest rate to the first beyond the maximum."""
    calm = next(iter(_lowest([probe for probe in probes if probe.stage_means_s])), None)
    full = next((probe for probe in beyond if probe.stage_means_s), None)
    if calm is None or full is None:
        return None, 0.0
    growth_s = {
        name: seconds - calm.stage_means_s.get(name, 0.0) for name, seconds in full.stage_means_s.items()
    }
    name = max(growth_s, key=lambda stage: growth_s[stage])
    if calm is full:  # no rate met the SLO: the longest stage is all that can be named
        name = max(full.stage_means_s, key=lambda stage: full.stage_means_s[stage])
        return name, 0.0
    return name, growth_s[name]
