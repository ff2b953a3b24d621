"""The plots of a report, as SVG."""

from collections.abc import Sequence

import numpy as np
from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.ticker import LogFormatter, NullFormatter

from benchmarks.figures import STYLE, new_axes, svg
from benchmarks.load.find_max import Maximum
from benchmarks.load.outcomes import Outcome, Record
from benchmarks.load.report import Report
from benchmarks.load.summary import Bin, Summary

_MAX_POINTS = 2_000


def plots(report: Report, records: Sequence[Record]) -> dict[str, str]:
    """SVG by title; only what there is something to draw of."""
    drawn: dict[str, str] = {}
    with rc_context(STYLE):
        if report.maximum and report.maximum.probes:
            drawn["Share of good requests by rate"] = _rates_tried(report.maximum, report)
        summary = report.summary
        if summary and summary.bins:
            drawn["Latency over time"] = _latency(summary.bins, report)
            drawn["Rates over time"] = _rates(summary.bins)
        if summary and summary.degraded:
            drawn["Degraded answers over time"] = _degraded(summary.bins)
        if summary and summary.outcomes:
            drawn["Outcomes"] = _shares(summary.outcomes, "requests")
        if summary and summary.latency:
            measured = [r for r in records if r.at_s >= report.settings.warmup_s and not r.is_background]
            drawn["Latency by percentile"] = _percentiles(measured)
        if summary and summary.stages:
            drawn["Stages"] = _stages(summary)
        if summary and summary.actions:
            drawn["Actions"] = _shares(summary.actions, "answers")
    return drawn


def _latency(bins: Sequence[Bin], report: Report) -> str:
    figure, axes = new_axes("seconds into the measurement", "latency, s")
    at_s = [bin_.from_s for bin_ in bins]
    for name in ("p50_s", "p90_s", "p99_s"):
        values = [getattr(bin_, name) for bin_ in bins]
        axes.plot(at_s, [np.nan if v is None else v for v in values], label=name[:-2], marker=".")
    if report.settings.slo.latency_s is not None:
        axes.axhline(report.settings.slo.latency_s, color="black", linestyle="--", label="SLO")
    _logarithmic(axes)
    return svg(figure, axes)


def _rates(bins: Sequence[Bin]) -> str:
    figure, axes = new_axes("seconds into the measurement", "requests per second")
    at_s = [bin_.from_s for bin_ in bins]
    axes.plot(at_s, [bin_.due_per_s for bin_ in bins], label="due", color="lightgrey", linewidth=5)
    axes.plot(at_s, [bin_.good_per_s for bin_ in bins], label="good", color="tab:green")
    axes.plot(at_s, [bin_.failed_per_s for bin_ in bins], label="not answered", color="tab:red")
    axes.set_ylim(bottom=0)
    return svg(figure, axes)


def _degraded(bins: Sequence[Bin]) -> str:
    figure, axes = new_axes("seconds into the measurement", "share of answers")
    axes.plot([b.from_s for b in bins], [b.degraded_share for b in bins], label="degraded")
    axes.set_ylim(0, 1)
    return svg(figure, axes)


def _percentiles(records: Sequence[Record]) -> str:
    """Latency against the share that is slower, so that the tail is not one pixel wide."""
    figure, axes = new_axes("percentile", "seconds")
    answered = [record for record in records if record.outcome.is_answered]
    _quantiles(axes, [r.latency_s for r in answered], "from when it was due")
    _quantiles(axes, [s for r in answered if (s := r.service_s) is not None], "from sending")
    _quantiles(axes, [s for r in records if (s := r.lateness_s) is not None], "sent late by")
    axes.set_xscale("log")
    _logarithmic(axes)
    ticks = [1, 0.5, 0.1, 0.01, 0.001, 0.0001]
    axes.set_xticks(ticks, ["0", "50", "90", "99", "99.9", "99.99"])
    axes.tick_params(axis="x", which="minor", bottom=False)
    axes.xaxis.set_minor_formatter(NullFormatter())
    axes.invert_xaxis()
    return svg(figure, axes)


def _quantiles(axes: Axes, seconds: Sequence[float], label: str) -> None:
    if not seconds:
        return
    ranked = np.sort(np.asarray(seconds))
    slower = 1 - np.arange(len(ranked)) / len(ranked)
    places = np.unique((len(ranked) - np.geomspace(1, len(ranked), _MAX_POINTS)).astype(int))
    axes.plot(slower[places], np.maximum(ranked[places], 1e-5), label=label)


def _shares(counts: dict[str, int], what: str) -> str:
    figure, axes = new_axes(what, "", height=0.7 + 0.3 * len(counts))
    good = {outcome.value for outcome in Outcome if outcome.is_answered}
    bad = {outcome.value for outcome in Outcome} - good
    colours = ["tab:red" if name in bad else "tab:blue" for name in counts]
    bars = axes.barh(list(counts), list(counts.values()), color=colours)
    axes.bar_label(bars, padding=3)
    axes.margins(x=0.15)
    axes.invert_yaxis()
    return svg(figure, axes)


def _stages(summary: Summary) -> str:
    names = list(summary.stages)
    figure, axes = new_axes("seconds", "", height=0.9 + 0.4 * len(names))
    rows = np.arange(len(names))
    times = list(summary.stages.values())
    axes.barh(rows - 0.2, [t.p50_s for t in times], 0.4, label="p50")
    axes.barh(rows + 0.2, [t.p99_s for t in times], 0.4, label="p99", alpha=0.5)
    axes.set_yticks(rows, names)
    axes.invert_yaxis()
    return svg(figure, axes)


def _rates_tried(maximum: Maximum, report: Report) -> str:
    figure, axes = new_axes("requests per second", "share of good requests")
    share = report.settings.slo.share
    for meets, colour, label in (
        (True, "tab:green", "a probe that meets the SLO"),
        (False, "tab:red", "one that does not"),
    ):
        probes = [probe for probe in maximum.probes if probe.meets(share) is meets]
        shares = [probe.summary.good_share for probe in probes]
        axes.scatter([probe.rate_per_s for probe in probes], shares, color=colour, label=label)
    axes.axhline(share, color="black", linestyle="--", label="wanted")
    axes.set_xscale("log")
    axes.set_ylim(0, 1.05)
    return svg(figure, axes)


def _logarithmic(axes: Axes) -> None:
    """Seconds on a scale of ratios, written as numbers and not as powers."""
    axes.set_yscale("log")
    for formatted in (axes.yaxis.set_major_formatter, axes.yaxis.set_minor_formatter):
        formatted(LogFormatter(minor_thresholds=(1.5, 0.5)))
