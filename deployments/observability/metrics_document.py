"""The page on metrics, built from the registry: `make docs` writes `docs/metrics.md`."""

from collections.abc import Iterator

from deployments.observability.alert_rules import runbook_of
from deployments.observability.declaring import Alert, Histogram, Label, Metric, Origin
from deployments.observability.registry import alerts, metrics, panels

_HEAD = """# Metrics

Generated from the registry of metrics by `make docs`; [observability.md](observability.md) says how they
are exported, drawn and alerted on. A label takes the values of a closed list, or is bounded in their
number; whatever comes beyond is `other`.
"""
_ORIGINS = {
    Origin.APPLICATION: ("The application's own", "Exported by Ray from every process."),
    Origin.FOREIGN: (
        "Ray's, Ray Serve's and vLLM's",
        "Declared because panels and alerts are built on them; they have more labels than are named.",
    ),
    Origin.COMMAND: ("The load generator's", "Exported by `crag load --metrics-port`, without Ray."),
}


def metrics_document() -> str:
    """The whole page."""
    return "\n".join([_HEAD, *_sections(), *_alerts()])


def _sections() -> Iterator[str]:
    for origin, (title, text) in _ORIGINS.items():
        yield f"## {title}\n\n{text}\n"
        yield "| metric | type | labels | what it says | shown in |"
        yield "|---|---|---|---|---|"
        yield from (_row(metric) for metric in metrics() if metric.origin is origin)
        yield ""


def _row(metric: Metric) -> str:
    labels = "; ".join(map(_label, metric.labels))
    kind = str(metric.kind)
    if isinstance(metric, Histogram) and metric.buckets:
        kind += f", {metric.buckets[0]:g} to {metric.buckets[-1]:g}"
    shown = "; ".join(
        f"{panel.dashboard}: {panel.title}"
        for panel in panels()
        if any(metric.exported in query.expression for query in panel.queries)
    )
    return f"| `{metric.exported}` | {kind} | {labels} | {metric.help} | {shown} |"


def _label(label: Label) -> str:
    if not label.values:
        return f"`{label.name}` ({label.at_most} at most)"
    values = sorted(label.values)
    listed = ", ".join(f"`{value}`" for value in values[:12])
    return f"`{label.name}`: {listed}" + (f" and {len(values) - 12} more" if values[12:] else "")


def _alerts() -> Iterator[str]:
    yield "## Alerts\n"
    yield "| alert | severity | after | meaning |"
    yield "|---|---|---|---|"
    yield from map(_alert_row, alerts())
    yield ""


def _alert_row(alert: Alert) -> str:
    page = runbook_of(alert).removeprefix("docs/")
    return f"| [{alert.name}]({page}) | {alert.severity} | {alert.for_minutes} min | {alert.summary} |"
