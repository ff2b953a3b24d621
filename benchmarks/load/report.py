"""A report's content, once, for every form it is written in."""

import os
import platform
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from statistics import median
from typing import Any

from benchmarks.load.find_max import Maximum, Probe
from benchmarks.load.settings import LoadSettings
from benchmarks.load.summary import OUTSIDE_STAGES, Summary, Times
from benchmarks.load.verdict import Verdict, described
from benchmarks.report import Section

_TIMES = ("count", "mean", "p50", "p90", "p99", "p99.9", "max")


@dataclass(frozen=True, slots=True)
class Report:
    """Everything there is to say about a run, or a search for the highest rate."""

    url: str
    run_id: str
    settings: LoadSettings
    verdict: Verdict
    summary: Summary | None = None
    maximum: Maximum | None = None
    machine: str = ""
    written_at: str = ""

    def as_json(self) -> dict[str, Any]:
        """The report for programs; of headers only their names, for values may be secrets."""
        settings = self.settings.model_dump(mode="json")
        settings["client"]["headers"] = [name for name, _ in self.settings.client.headers]
        return {
            "format": 1,
            "verdict": self.verdict.sentence,
            "exit_code": int(self.verdict.exit_code),
            "url": self.url,
            "run_id": self.run_id,
            "written_at": self.written_at,
            "machine": self.machine,
            "settings": settings,
            "summary": asdict(self.summary) if self.summary else None,
            "maximum": asdict(self.maximum) if self.maximum else None,
        }


def report(
    url: str,
    run_id: str,
    settings: LoadSettings,
    verdict: Verdict,
    summary: Summary | None = None,
    maximum: Maximum | None = None,
) -> Report:
    """The report, with where and when it was made."""
    machine = f"{platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}"
    now = datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC")
    return Report(url, run_id, settings, verdict, summary, maximum, machine, now)


def sections(report: Report) -> list[Section]:
    """The tables, those without rows left out."""
    found = [_asked(report)]
    if report.maximum:
        found.append(_maximum(report.maximum))
    if report.summary:
        found += _summary(report.summary)
    return [section for section in found if section.rows]


def warnings(report: Report) -> list[str]:
    """What stands between these figures and their use."""
    found = list(report.summary.warnings) if report.summary else []
    if report.settings.arrivals.kind == "closed":
        found.append(
            "a closed loop slows down with its server: its percentiles leave out what a user would "
            "have waited, so use it for the peak alone"
        )
    return found


def _asked(report: Report) -> Section:
    settings = report.settings
    arrivals, client = settings.arrivals, settings.client
    rate = f"{settings.offered_per_s:g} a second"
    rows = [
        ("server", report.url),
        ("workload", f"{settings.workload.name}, pipeline {settings.workload.pipeline}"),
        ("streamed", "yes" if settings.workload.is_streamed else "no"),
        ("arrivals", f"{arrivals.concurrency} in flight" if arrivals.kind == "closed" else rate),
        ("arrival process", str(arrivals.kind)),
        ("measured", f"{settings.duration_s:g} s after {settings.warmup_s:g} s of warm-up"),
        ("SLO", described(settings.slo)),
        ("client", f"gives up after {client.timeout_s:g} s, {client.retries} retries"),
        ("seed, run", f"{settings.seed}, {report.run_id}"),
        ("generator", f"{settings.processes} process(es) on {report.machine}"),
        *_cost(report.summary),
        ("written", report.written_at),
    ]
    return Section("What was asked", ("", ""), rows)


def _cost(summary: Summary | None) -> Iterable[Sequence[str]]:
    if summary:
        each = f"{summary.cpu_ms_per_request:.3f} CPU-ms a request"
        yield ("generator's cost", f"{each}, busiest process {100 * summary.busy:.0f} % of a core")


def _summary(summary: Summary) -> Iterable[Section]:
    yield Section(
        "Rates",
        ("", "per second", "requests"),
        [
            ("due", f"{summary.due_per_s:.2f}", str(summary.due)),
            ("answered", f"{summary.answered_per_s:.2f}", str(_answers(summary))),
            ("good (goodput)", f"{summary.good_per_s:.2f}", str(summary.good)),
            ("tokens written", f"{summary.completion_tokens_per_s:.1f}", ""),
        ],
        "Good is a whole answer within the SLO; those who hung up are not judged.",
    )
    yield Section(
        "Times, in seconds",
        ("", *_TIMES),
        [
            *_times("latency", summary.latency),
            *_times("first token", summary.first_token),
            *_times("between tokens", summary.inter_token),
            *_times("until refused with 429", summary.refusal),
            *_times("background calls", summary.background),
            *_times("latency from sending", summary.service),
            *_times("sent late by", summary.lateness),
        ],
        "Latency and first token count from when a request was due; the last two rows say what that "
        "adds, and how late the generator itself was.",
    )
    total = max(1, summary.due)
    yield Section(
        "Outcomes",
        ("outcome", "requests", "share"),
        [(name, str(n), f"{100 * n / total:.2f} %") for name, n in summary.outcomes.items()],
    )
    yield Section("Codes", ("code", "requests"), [(code, str(n)) for code, n in summary.codes.items()])
    yield _stages(summary)
    answers = max(1, _answers(summary))
    yield _mix("Actions", summary.actions, answers)
    yield _mix("Degraded", summary.degraded, answers)


def _stages(summary: Summary) -> Section:
    rows = [
        (name, *_cells(times), f"{times.mean_s * times.count / max(1, _answers(summary)):.4f}")
        for name, times in summary.stages.items()
    ]
    named = f"The longest is {summary.bottleneck}. " if summary.bottleneck else ""
    return Section(
        "Stages, in seconds",
        ("stage", *_TIMES, "per answer"),
        rows,
        f"{named}From the servers' traces; stages may run side by side. {OUTSIDE_STAGES.capitalize()}: "
        "queues, HTTP, the network and the client.",
    )


def _maximum(maximum: Maximum) -> Section:
    bottleneck = (
        f"The bottleneck is {maximum.bottleneck}: an answer spends {maximum.bottleneck_growth_s:.3f} s "
        "more there at the first rate beyond the maximum than at the lowest. "
        if maximum.bottleneck
        else "The answers held no traces, so no stage can be named. "
    )
    by_rate: dict[float, list[Probe]] = defaultdict(list)
    for probe in maximum.probes:
        by_rate[probe.rate_per_s].append(probe)
    return Section(
        "Rates that were tried",
        ("per second", "probes", "good", "requests", "p50 s", "p99 s", "broken off"),
        [_rate(rate_per_s, by_rate[rate_per_s]) for rate_per_s in sorted(by_rate)],
        f"{bottleneck}All requests sent at a rate count for it; p50 is the median of its probes, p99 "
        "their highest. A probe is broken off once its rate is lost. The n-th probe of every rate has "
        "the same arrivals: another --seed may move the maximum, the less so the longer the probes.",
    )


def _rate(rate_per_s: float, probes: Sequence[Probe]) -> Sequence[str]:
    good, judged = (sum(counts) for counts in zip(*((p.good, p.judged) for p in probes), strict=True))
    latencies = [latency for probe in probes if (latency := probe.summary.latency)]
    return (
        f"{rate_per_s:.3g}",
        str(len(probes)),
        f"{100 * good / judged:.2f} %" if judged else "-",
        str(judged),
        f"{median(latency.p50_s for latency in latencies):.3f}" if latencies else "-",
        f"{max(latency.p99_s for latency in latencies):.3f}" if latencies else "-",
        str(sum(probe.is_broken_off for probe in probes) or ""),
    )


def _mix(title: str, counts: dict[str, int], answers: int) -> Section:
    rows = [(name, str(n), f"{100 * n / answers:.1f} %") for name, n in counts.items()]
    return Section(title, ("", "answers", "share"), rows)


def _answers(summary: Summary) -> int:
    return summary.latency.count if summary.latency else 0


def _times(name: str, times: Times | None) -> Iterable[Sequence[str]]:
    if times:
        yield (name, *_cells(times))


def _cells(times: Times) -> Sequence[str]:
    seconds = (times.mean_s, times.p50_s, times.p90_s, times.p99_s, times.p999_s, times.max_s)
    return (str(times.count), *(f"{value:.4f}" for value in seconds))
