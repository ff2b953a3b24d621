"""Tables of a quality run, as Markdown."""

from collections.abc import Iterable, Mapping, Sequence
from statistics import fmean
from typing import Protocol

from crag_core.metrics import Proportion, percentile


class Scored(Protocol):
    """What a table needs to know of a result."""

    @property
    def pipeline(self) -> str: ...
    @property
    def seconds(self) -> float: ...
    @property
    def action(self) -> str | None: ...
    @property
    def correct(self) -> bool: ...
    @property
    def correct_case_sensitive(self) -> bool: ...
    @property
    def error(self) -> str | None: ...
    @property
    def stages(self) -> Mapping[str, float]: ...
    @property
    def degraded(self) -> Sequence[str]: ...
    @property
    def tokens(self) -> int: ...


def markdown(title: str, results: Sequence[Scored]) -> str:
    """Accuracy by pipeline and by action, latency, and the mean time of each stage."""
    pipelines = list(dict.fromkeys(result.pipeline for result in results))
    by_pipeline = {name: [r for r in results if r.pipeline == name] for name in pipelines}
    actions = {
        f"{name}, {action}": [r for r in rows if r.action == action]
        for name, rows in by_pipeline.items()
        for action in ("correct", "ambiguous", "incorrect")
        if any(r.action == action for r in rows)
    }
    return "\n\n".join(
        [
            f"## {title}",
            table(
                ["pipeline", "accuracy", "95 % interval", "case-sensitive", "failed", "degraded",
                 "p50 s", "p95 s", "tokens"],
                [_accuracy(name, rows) for name, rows in by_pipeline.items()],
            ),
            table(
                ["action", "questions", "accuracy", "95 % interval"],
                [_action(name, rows) for name, rows in actions.items()],
            ),
            table(
                ["pipeline", "stage", "mean s", "p50 s", "p95 s"],
                [row for name, rows in by_pipeline.items() for row in _stages(name, rows)],
            ),
        ]
    )  # fmt: skip


def table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A Markdown table."""
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _accuracy(name: str, rows: Sequence[Scored]) -> list[str]:
    seconds = [row.seconds for row in rows]
    return [
        name,
        *_share(sum(row.correct for row in rows), len(rows)),
        f"{100 * Proportion(sum(row.correct_case_sensitive for row in rows), len(rows)).share:.1f} %",
        str(sum(row.error is not None for row in rows)),
        str(sum(bool(row.degraded) for row in rows)),
        f"{percentile(seconds, 0.5):.2f}",
        f"{percentile(seconds, 0.95):.2f}",
        f"{fmean(row.tokens for row in rows):.0f}",
    ]


def _action(name: str, rows: Sequence[Scored]) -> list[str]:
    return [name, str(len(rows)), *_share(sum(row.correct for row in rows), len(rows))]


def _share(successes: int, total: int) -> list[str]:
    proportion = Proportion(successes, total)
    low, high = proportion.interval
    return [f"{100 * proportion.share:.1f} %", f"{100 * low:.1f} to {100 * high:.1f}"]


def _stages(name: str, rows: Sequence[Scored]) -> Iterable[list[str]]:
    stages = list(dict.fromkeys(stage for row in rows for stage in row.stages))
    for stage in stages:
        times = [row.stages[stage] for row in rows if stage in row.stages]
        yield [
            name,
            stage,
            f"{fmean(times):.3f}",
            f"{percentile(times, 0.5):.3f}",
            f"{percentile(times, 0.95):.3f}",
        ]
