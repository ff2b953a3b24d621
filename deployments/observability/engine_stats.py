"""vLLM's own metrics, on the way out that this process's metrics take."""

from typing import Any

from deployments.observability.exporters import RayExporter
from deployments.observability.meter import meter


def engine_stat_loggers() -> list[Any]:
    """What an engine of this process reports to: Ray, where metrics are exported through it."""
    if not isinstance(meter().exporter, RayExporter):
        return []
    # imported here: only the generator's replica has vLLM
    from vllm.v1.metrics.ray_wrappers import RayPrometheusStatLogger

    return [RayPrometheusStatLogger]
