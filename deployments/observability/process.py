"""What every process of the application does to be seen: set up once, before its replica is made."""

import asyncio
from typing import Any

import psutil

from deployments.observability.exporters import NoExporter
from deployments.observability.logs import log_as_json
from deployments.observability.meter import Meter, meter, use
from deployments.observability.metrics import cluster
from deployments.observability.redaction import redact_logs
from deployments.observability.tracing import trace
from deployments.settings import ObservabilitySettings

_LOOK_EVERY_S = 1.0
_MEASURE_EVERY_LOOKS = 5

_watching: set[asyncio.Task[None]] = set()
"""Kept: the event loop holds tasks only weakly."""


def observed(replica: type, settings: ObservabilitySettings) -> type:
    """The replica's class, whose instances first set up their process to be observed."""

    class Observed(replica):  # type: ignore[misc]  # any class
        def __init__(self, *arguments: Any) -> None:
            observe_process(replica.__name__, settings)
            # what an asynchronous constructor returns is awaited by Serve
            return super().__init__(*arguments)  # type: ignore[no-any-return]

    Observed.__name__ = Observed.__qualname__ = replica.__name__
    return Observed


def observe_process(name: str, settings: ObservabilitySettings) -> None:
    """Set up this process, which has a running event loop, as the settings say."""
    redact_logs()
    log_as_json()
    trace(name, settings.tracing)
    if not settings.metrics:
        use(Meter(NoExporter()))
        return
    meter().count(cluster.STARTED, process=name)
    _watching.add(asyncio.get_running_loop().create_task(_watch(name)))


async def _watch(name: str) -> None:
    process, loop, measured = psutil.Process(), asyncio.get_running_loop(), meter()
    refused, looks = 0, 0
    while True:
        due_s = loop.time() + _LOOK_EVERY_S
        await asyncio.sleep(_LOOK_EVERY_S)
        measured.observe(cluster.LOOP_LAG_SECONDS, max(loop.time() - due_s, 0.0), process=name)
        looks += 1
        if looks % _MEASURE_EVERY_LOOKS == 1:
            measured.show(cluster.RESIDENT_BYTES, process.memory_info().rss, process=name)
            measured.show(cluster.SERIES, measured.series, process=name)
            measured.count(cluster.SERIES_REFUSED, measured.refused - refused, process=name)
            refused = measured.refused
