"""Recording: what a process counts, bounded in series and cheap on a question's way."""

import sys
from collections.abc import Mapping
from threading import Lock

from prometheus_client import REGISTRY

from deployments.observability.declaring import OTHER, Counter, Gauge, Histogram, Label, Metric
from deployments.observability.exporters import ClientExporter, Exporter, RayExporter, Record


class Meter:
    """Records the metrics of one process.

    Whatever a caller passes, a label has only values that were declared for it, or `other`, and a
    metric has at most `max_series` series.
    """

    def __init__(self, exporter: Exporter) -> None:
        """Has recorded nothing yet."""
        self.exporter = exporter
        self._known: dict[tuple[object, ...], Record] = {}
        self._opened: dict[Metric, dict[tuple[str, ...], Record]] = {}
        self._totals: dict[tuple[object, ...], float] = {}
        self._seen: dict[tuple[Metric, Label], set[str]] = {}
        self._opening = Lock()
        self.refused = 0
        """Label values that became `other`."""

    @property
    def series(self) -> int:
        """Series open now; a histogram has one for each bucket, and three more."""
        return sum(
            len(opened) * (len(metric.buckets) + 3 if isinstance(metric, Histogram) else 1)
            for metric, opened in self._opened.items()
        )

    def count(self, counter: Counter, by: float = 1.0, /, **labels: str) -> None:
        """Add a step to a counter; nothing for 0."""
        if by > 0:
            self._record(counter, labels)(by)

    def count_to(self, counter: Counter, total: float, /, **labels: str) -> None:
        """Bring a counter up to what somebody else has counted since this process started."""
        key = (counter, *labels.values())
        self.count(counter, total - self._totals.get(key, 0.0), **labels)
        self._totals[key] = total

    def observe(self, histogram: Histogram, value: float, /, **labels: str) -> None:
        """Add an observation to a histogram."""
        self._record(histogram, labels)(value)

    def show(self, gauge: Gauge, value: float, /, **labels: str) -> None:
        """Set a gauge."""
        self._record(gauge, labels)(value)

    def _record(self, metric: Metric, labels: Mapping[str, str]) -> Record:
        key = (metric, *map(labels.__getitem__, metric.label_names))
        return self._known.get(key) or self._open(metric, labels, key)

    def _open(self, metric: Metric, labels: Mapping[str, str], key: tuple[object, ...]) -> Record:
        if len(labels) != len(metric.labels):
            raise KeyError(f"{metric.name} has the labels {metric.label_names}, not {(*labels,)}")
        with self._opening:
            opened = self._opened.setdefault(metric, {})
            bounded = tuple(self._bounded(metric, label, labels[label.name]) for label in metric.labels)
            if bounded not in opened and len(opened) >= metric.max_series:
                bounded = (OTHER,) * len(metric.labels)
            record = opened.get(bounded)
            if record is None:
                record = self.exporter.series(
                    metric, dict(zip(metric.label_names, bounded, strict=True))
                )
                opened[bounded] = record
            if bounded == key[1:]:  # remembered only so: else the memory would grow with strangers
                self._known[key] = record
            else:
                self.refused += 1
        return record

    def _bounded(self, metric: Metric, label: Label, value: str) -> str:
        if label.values:
            return value if value in label.values else OTHER
        seen = self._seen.setdefault((metric, label), set())
        if value in seen or len(seen) < label.at_most:
            seen.add(value)
            return value
        return OTHER


_of_process: Meter | None = None


def meter() -> Meter:
    """This process's: through Ray in a worker of a cluster, else through prometheus-client."""
    global _of_process
    if _of_process is None:
        _of_process = Meter(RayExporter() if _is_in_ray() else ClientExporter(REGISTRY))
    return _of_process


def use(chosen: Meter) -> None:
    """Make this the process's meter, before anything is recorded."""
    global _of_process
    _of_process = chosen


def _is_in_ray() -> bool:
    ray = sys.modules.get("ray")
    return ray is not None and bool(ray.is_initialized())
