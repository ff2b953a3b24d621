"""The run as Prometheus metrics, on loopback."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from prometheus_client import CollectorRegistry, start_http_server

from benchmarks.load.outcomes import Record
from benchmarks.load.processes import Run
from deployments.observability.exporters import ClientExporter
from deployments.observability.meter import Meter
from deployments.observability.metrics import load


class Exposition:
    """Counts what a run reports; one registry for all runs of a command."""

    def __init__(self) -> None:
        """Nothing has been counted."""
        self.registry = CollectorRegistry()
        self._meter = Meter(ClientExporter(self.registry))

    def watch(self, run: Run, fresh: Sequence[Record]) -> None:
        """Count what is new."""
        meter = self._meter
        meter.show(load.IN_FLIGHT, run.in_flight)
        meter.show(load.OFFERED, run.settings.offered_per_s)
        meter.show(load.BUSY, run.busy)
        for record in fresh:
            labels = {"kind": record.kind, "background": str(record.is_background).lower()}
            meter.count(load.REQUESTS, outcome=record.outcome, **labels)
            if record.outcome.is_answered:
                meter.observe(load.LATENCY_SECONDS, record.latency_s, **labels)
            if record.first_token_s is not None:
                meter.observe(load.FIRST_TOKEN_SECONDS, record.first_token_s)
            if record.lateness_s is not None:
                meter.observe(load.LATENESS_SECONDS, record.lateness_s)


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
