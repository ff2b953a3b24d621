"""All metrics, panels and alerts, collected from the modules that declare them."""

from collections.abc import Iterator

from deployments.observability.declaring import Alert, Metric, Panel, Recording
from deployments.observability.metrics import (
    admission,
    answers,
    cluster,
    compact,
    decisions,
    evaluator,
    generator,
    load,
    objectives,
    search,
)

_MODULES = (
    objectives,
    answers,
    admission,
    decisions,
    evaluator,
    generator,
    search,
    compact,
    cluster,
    load,
)
"""In the order in which dashboards show them; what a module imports from another counts there too."""


def metrics() -> Iterator[Metric]:
    """Every metric, in the order of its declaration."""
    return (declared for declared in _declared() if isinstance(declared, Metric))


def panels() -> Iterator[Panel]:
    """Every panel: those of metrics, and those over several of them."""
    for declared in _declared():
        panel = declared.panel if isinstance(declared, Metric) else declared
        if isinstance(panel, Panel):
            yield panel


def alerts() -> Iterator[Alert]:
    """Every alert: those of metrics, and those over several of them."""
    for declared in _declared():
        alert = declared.alert if isinstance(declared, Metric) else declared
        if isinstance(alert, Alert):
            yield alert


def recordings() -> Iterator[Recording]:
    """Every expression that is recorded for others."""
    return (declared for declared in _declared() if isinstance(declared, Recording))


def _declared() -> Iterator[object]:
    seen: set[int] = set()
    for module in _MODULES:
        for declared in vars(module).values():
            if isinstance(declared, Metric | Panel | Alert | Recording) and id(declared) not in seen:
                seen.add(id(declared))
                yield declared
