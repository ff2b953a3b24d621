"""Writes what is generated from the registry: `python -m deployments.observability.generate`."""

from collections.abc import Mapping
from pathlib import Path

from deployments.observability.alert_rules import alert_rules
from deployments.observability.dashboards import dashboards
from deployments.observability.metrics_document import metrics_document


def generated() -> Mapping[str, str]:
    """The content of every generated file, by its path from the project's root."""
    return {
        **{f"ops/grafana/dashboards/{name}": content for name, content in dashboards()},
        "ops/prometheus/alerts.yml": alert_rules(),
        "docs/metrics.md": metrics_document(),
    }


def write(root: Path) -> None:
    """Write every file anew; each is whole or untouched."""
    for path, content in generated().items():
        partial = root / f"{path}.partial"
        partial.parent.mkdir(parents=True, exist_ok=True)
        partial.write_text(content, encoding="utf-8")
        partial.replace(root / path)


if __name__ == "__main__":
    write(Path.cwd())
