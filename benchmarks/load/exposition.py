"""The run as Prometheus metrics, on loopback."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, start_http_server

from benchmarks.load.outcomes import Record
from benchmarks.load.processes import Run

_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120)


class Exposition:
    """Counts what a run reports; one registry for all runs of a command."""

    def __init__(self) -> None:
        """Nothing has been counted."""
        self.registry = CollectorRegistry()
        labels = ("kind", "background")
        self._requests = Counter(
            "crag_load_requests", "Requests that ended.", ("outcome", *labels), registry=self.registry
        )
        self._latency = self._histogram("latency", "From when it was due to the whole answer.", labels)
        self._first_token = self._histogram("first_token", "From when it was due to the first token.")
        self._lateness = self._histogram("lateness", "How much later than due it was sent.")
        self._in_flight = self._gauge("in_flight", "Requests in flight.")
        self._offered = self._gauge("offered_per_second", "The rate that is to be sent.")
        self._busy = self._gauge("busy_ratio", "CPU use of the busiest sending process.")

    def watch(self, run: Run, fresh: Sequence[Record]) -> None:
        """Count what is new."""
        self._in_flight.set(run.in_flight)
        self._offered.set(run.settings.offered_per_s)
        self._busy.set(run.busy)
        for record in fresh:
            labels = (record.kind, str(record.is_background).lower())
            self._requests.labels(record.outcome.value, *labels).inc()
            if record.outcome.is_answered:
                self._latency.labels(*labels).observe(record.latency_s)
            if record.first_token_s is not None:
                self._first_token.observe(record.first_token_s)
            if record.lateness_s is not None:
                self._lateness.observe(record.lateness_s)

    def _histogram(self, name: str, text: str, labels: Sequence[str] = ()) -> Histogram:
        return Histogram(
            f"crag_load_{name}_seconds", text, labels, registry=self.registry, buckets=_SECONDS
        )

    def _gauge(self, name: str, text: str) -> Gauge:
        return Gauge(f"crag_load_{name}", text, registry=self.registry)


@contextmanager
def served(exposition: Exposition, port: int) -> Iterator[int]:
    """Serve it on loopback; yields the port, which is a free one for 0. Raises OSError."""
    server, thread = start_http_server(port, addr="127.0.0.1", registry=exposition.registry)
    try:
        yield int(server.server_port)
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
