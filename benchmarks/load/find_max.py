"""The highest rate that keeps to the SLO: doubled until it fails, bisected, and found again."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import sqrt
from statistics import median

from benchmarks.load.summary import Summary

_PRECISION = 1.05
"""Bracket, as a ratio, at which a search ends."""
_REPEAT_BRACKET = 1.25
_STEADY_SPREAD = 0.10
_MOST_STEPS = 24
LOWEST_RATE_PER_S = 0.01


@dataclass(frozen=True, slots=True)
class Probe:
    """One rate that was tried."""

    rate_per_s: float
    meets_slo: bool
    summary: Summary
    stage_means_s: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class Maximum:
    """What the searches found; `rate_per_s` is their median, None where no rate meets the SLO.

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
"""Tries a rate; the second argument numbers the probes. Raises Interrupted."""


def find_max(probe: Prober, from_per_s: float, highest_per_s: float, repeats: int) -> Maximum:
    """Search `repeats` times, each after the first from a bracket around what was found before.

    A search doubles or halves the rate until one rate meets the SLO and another does not, then halves
    the bracket, on a scale of ratios, until it is within 5 %. Probes are counted, so that it ends.
    """
    tried: list[Probe] = []

    def meets(rate_per_s: float) -> bool:
        tried.append(probe(rate_per_s, len(tried)))
        return tried[-1].meets_slo

    found: list[float] = []
    is_bounded, is_interrupted = True, False
    try:
        start_per_s = min(max(from_per_s, LOWEST_RATE_PER_S), highest_per_s)
        for _ in range(repeats):
            factor = _REPEAT_BRACKET if found else 2.0
            rate_per_s, bounded = _search(meets, start_per_s, highest_per_s, factor)
            is_bounded = is_bounded and bounded
            if rate_per_s is None:
                break
            found.append(rate_per_s)
            start_per_s = median(found)
    except Interrupted:
        is_interrupted = True
    middle = median(found) if found else None
    spread = (max(found) - min(found)) / middle if middle else 0.0
    bottleneck, growth_s = _bottleneck(tried)
    return Maximum(
        rate_per_s=middle,
        rates_per_s=tuple(found),
        spread=spread,
        is_steady=len(found) == repeats > 1 and spread <= _STEADY_SPREAD,
        is_bounded=is_bounded,
        is_limited_by_generator=_is_limited_by_generator(tried),
        bottleneck=bottleneck,
        bottleneck_growth_s=growth_s,
        probes=tuple(tried),
        is_interrupted=is_interrupted,
    )


def _search(
    meets: Callable[[float], bool], start_per_s: float, highest_per_s: float, factor: float
) -> tuple[float | None, bool]:
    """The highest rate that met the SLO, and whether one was found that did not."""
    rate_per_s, good, bad = start_per_s, None, None
    for _ in range(_MOST_STEPS):
        if meets(rate_per_s):
            good = rate_per_s
        else:
            bad = rate_per_s
        if good and bad:
            if bad / good <= _PRECISION:
                break
            rate_per_s = sqrt(good * bad)
        elif good:
            if good >= highest_per_s:
                return good, False
            rate_per_s = min(good * factor, highest_per_s)
        else:
            rate_per_s /= factor
            if rate_per_s < LOWEST_RATE_PER_S:
                break
    return good, bad is not None


def _is_limited_by_generator(probes: list[Probe]) -> bool:
    beyond = [probe for probe in probes if not probe.meets_slo]
    first = min(beyond, key=lambda probe: probe.rate_per_s, default=None)
    return first is not None and first.summary.is_generator_late


def _bottleneck(probes: list[Probe]) -> tuple[str | None, float]:
    """The stage that an answer waits longer in, from the lowest rate to the first beyond the maximum."""
    traced = [probe for probe in probes if probe.stage_means_s]
    met = [probe for probe in traced if probe.meets_slo]
    calm = min(met or traced, key=lambda probe: probe.rate_per_s, default=None)
    beyond = [probe for probe in traced if not probe.meets_slo]
    full = min(beyond, key=lambda probe: probe.rate_per_s, default=None)
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
