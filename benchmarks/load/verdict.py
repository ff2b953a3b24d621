"""What a run comes to: one sentence, and the exit code."""

from dataclasses import dataclass
from enum import IntEnum

from benchmarks.load.find_max import Maximum
from benchmarks.load.processes import Ending
from benchmarks.load.settings import LoadSettings, SloSettings
from benchmarks.load.summary import Summary


class Exit(IntEnum):
    """The command's exit codes."""

    WELL = 0
    SLO_MISSED = 1
    WRONG_USE = 2
    NOTHING_ANSWERED = 3
    INTERRUPTED = 130


@dataclass(frozen=True, slots=True)
class Verdict:
    """The first thing a reader wants to know."""

    exit_code: Exit
    sentence: str


def not_reached(reason: str) -> Verdict:
    """Of a server that was not there, or not ready in time."""
    return Verdict(Exit.NOTHING_ANSWERED, f"nothing was sent: {reason}")


def of_run(summary: Summary, settings: LoadSettings) -> Verdict:
    """Of one run."""
    share = _share(summary)
    if summary.ending is Ending.BY_USER:
        so_far = f"{summary.good} of {summary.judged} requests were good so far"
        return Verdict(Exit.INTERRUPTED, f"interrupted: {so_far}, {summary.unfinished} did not end")
    if not summary.due:
        return Verdict(Exit.NOTHING_ANSWERED, f"nothing was measured: {_why_nothing(settings)}")
    if summary.latency is None and summary.judged:
        return Verdict(Exit.NOTHING_ANSWERED, summary.warnings[-1])
    if summary.meets_slo is None:
        per_s = f"{summary.answered_per_s:.3g} answers a second of {summary.due_per_s:.3g} due"
        return Verdict(Exit.WELL, f"{per_s}; no SLO was set")
    if summary.meets_slo:
        return Verdict(Exit.WELL, f"keeps to the SLO ({described(settings.slo)}): {share}")
    return Verdict(Exit.SLO_MISSED, f"misses the SLO ({described(settings.slo)}): {share}")


def of_maximum(maximum: Maximum, settings: LoadSettings) -> Verdict:
    """Of a search for the highest rate."""
    slo = described(settings.slo)
    if maximum.is_interrupted:
        found = f", {maximum.rate_per_s:.3g} a second so far" if maximum.rate_per_s else ""
        return Verdict(Exit.INTERRUPTED, f"the search was interrupted{found}")
    if maximum.rate_per_s is None:
        lowest = min(probe.rate_per_s for probe in maximum.probes)
        answered = any(probe.summary.latency for probe in maximum.probes)
        code = Exit.SLO_MISSED if answered else Exit.NOTHING_ANSWERED
        tried = f"the lowest tried was {lowest:.3g} a second"
        why = maximum.probes[-1].summary.warnings if not answered else ()
        return Verdict(code, "; ".join([f"no rate keeps to the SLO ({slo})", tried, *why[-1:]]))
    reached = f"{maximum.rate_per_s:.3g} requests a second keep to the SLO ({slo})"
    if maximum.is_limited_by_generator:
        return Verdict(Exit.WELL, f"at least {reached}; beyond it the generator itself was late")
    if not maximum.is_bounded:
        return Verdict(Exit.WELL, f"at least {reached}; no higher rate was tried")
    if len(maximum.rates_per_s) == 1:
        return Verdict(Exit.WELL, f"{reached}; found once, so nothing is known of its spread")
    spread = f"{len(maximum.rates_per_s)} searches lie within {100 * maximum.spread:.0f} %"
    unsteady = "" if maximum.is_steady else ", which is too wide to rely on: measure longer"
    return Verdict(Exit.WELL, f"{reached}; {spread}{unsteady}")


def described(slo: SloSettings) -> str:
    """The SLO in words."""
    limits = [
        f"{what} within {limit:g} s"
        for what, limit in (("answer", slo.latency_s), ("first token", slo.first_token_s))
        if limit is not None
    ]
    return f"{100 * slo.share:g} % {' and '.join(limits)}" if limits else "none"


def _share(summary: Summary) -> str:
    low, high = summary.good_share_interval
    interval = f"95 % interval {100 * low:.1f} to {100 * high:.1f}"
    return f"{100 * summary.good_share:.1f} % of {summary.judged} requests ({interval})"


def _why_nothing(settings: LoadSettings) -> str:
    if settings.offered_per_s == 0 and settings.arrivals.kind in ("poisson", "gamma", "constant"):
        return "the rate is 0"
    return "no request was due after the warm-up"
