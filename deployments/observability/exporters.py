"""Ways out of a process for its metrics: through Ray, through prometheus-client, or nowhere."""

from collections.abc import Callable, Mapping
from typing import Protocol

import prometheus_client
from prometheus_client import CollectorRegistry

from deployments.observability.declaring import Counter, Histogram, Metric

Record = Callable[[float], None]
"""Records one value of one series: a counter's step, a gauge's state, an observation."""


class Exporter(Protocol):
    """Opens series."""

    def series(self, metric: Metric, labels: Mapping[str, str]) -> Record:
        """Where values of this series go; asked for once for each series."""
        ...


class RayExporter:
    """Through Ray: its agent on every node exports what the node's processes record."""

    def series(self, metric: Metric, labels: Mapping[str, str]) -> Record:
        """An instrument of its own, whose labels are fixed: so that recording need not check them."""
        # imported here: a command without Ray exports in the other way
        from ray.util import metrics as ray_metrics

        name, text, keys = metric.name, metric.help, metric.label_names
        if isinstance(metric, Histogram):
            histogram = ray_metrics.Histogram(name, text, list(metric.buckets), keys)
            histogram.set_default_tags(dict(labels))
            return histogram.observe
        if isinstance(metric, Counter):
            counter = ray_metrics.Counter(name, text, keys)
            counter.set_default_tags(dict(labels))
            return counter.inc
        gauge = ray_metrics.Gauge(name, text, keys)
        gauge.set_default_tags(dict(labels))
        return gauge.set


class ClientExporter:
    """Through prometheus-client, for commands and tests without Ray."""

    def __init__(self, registry: CollectorRegistry) -> None:
        """Exports to `registry`."""
        self._registry = registry
        self._made: dict[Metric, prometheus_client.metrics.MetricWrapperBase] = {}

    def series(self, metric: Metric, labels: Mapping[str, str]) -> Record:
        """A child of the metric, which is made once."""
        made = self._made.get(metric)
        if made is None:
            made = self._made[metric] = self._make(metric)
        child = made.labels(**labels) if labels else made
        record: Record = getattr(child, _RECORDS[type(metric).__name__])
        return record

    def _make(self, metric: Metric) -> prometheus_client.metrics.MetricWrapperBase:
        names, registry = metric.label_names, self._registry
        if isinstance(metric, Histogram):
            return prometheus_client.Histogram(
                metric.name, metric.help, names, registry=registry, buckets=metric.buckets
            )
        kind = prometheus_client.Counter if isinstance(metric, Counter) else prometheus_client.Gauge
        return kind(metric.name, metric.help, names, registry=registry)


class NoExporter:
    """Nowhere: metrics are switched off."""

    def series(self, metric: Metric, labels: Mapping[str, str]) -> Record:
        """Forgets."""
        return _forget


_RECORDS = {"Counter": "inc", "Gauge": "set", "Histogram": "observe"}


def _forget(value: float) -> None:
    """Nothing."""
