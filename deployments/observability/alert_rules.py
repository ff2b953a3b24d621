"""Prometheus' alert rules, built from the registry: `make dashboards` writes `ops/prometheus`."""

from typing import Any

import yaml

from deployments.observability.declaring import Alert
from deployments.observability.registry import alerts, recordings

_GENERATED = "# Generated from the registry of metrics by `make dashboards`.\n"


def alert_rules() -> str:
    """The rule file."""
    recorded = [{"record": it.name, "expr": it.expression} for it in recordings()]
    groups = [
        {"name": "crag-serve-recorded", "rules": recorded},
        {"name": "crag-serve", "rules": [_rule(alert) for alert in alerts()]},
    ]
    return _GENERATED + yaml.safe_dump({"groups": groups}, sort_keys=False, width=100)


def runbook_of(alert: Alert) -> str:
    """The page that says what to do, from the project's root."""
    return f"docs/runbooks/{alert.name}.md"


def _rule(alert: Alert) -> dict[str, Any]:
    return {
        "alert": alert.name,
        "expr": alert.when,
        "for": f"{alert.for_minutes}m",
        "labels": {"severity": str(alert.severity)},
        "annotations": {"summary": alert.summary, "runbook": runbook_of(alert)},
    }
