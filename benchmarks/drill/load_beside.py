"""Load from a thread of this process, while it does something else; it ends when asked to."""

import asyncio
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

from benchmarks.load.arrivals import Arrivals
from benchmarks.load.generator import Generator
from benchmarks.load.outcomes import Record
from benchmarks.load.settings import (
    ArrivalSettings,
    ClientSettings,
    LoadSettings,
    WorkloadSettings,
)
from benchmarks.load.target import parse_target
from benchmarks.load.workloads import workload

DEADLINE_S = 120.0
"""Of each request, asked of the server."""
_AT_MOST_S = 24 * 3_600.0
_MEASURES_FOR_S = 20.0
_AT_ONCE = 8


@contextmanager
def load_beside(
    url: str, rate_per_s: float, records: list[Record], *, is_streamed: bool = False
) -> Iterator[None]:
    """Requests of W2 at a mean rate until the block ends, and all that are in flight then.

    `records` gets one of each. No client tries again: what fails, counts.
    """
    settings = LoadSettings(
        arrivals=ArrivalSettings(rate_per_s=rate_per_s),
        workload=WorkloadSettings(is_streamed=is_streamed),
        client=ClientSettings(timeout_s=DEADLINE_S + 10, deadline_s=DEADLINE_S),
        duration_s=_AT_MOST_S,
        warmup_s=0.0,
    )
    generator = Generator(parse_target(url, ()), settings, workload(settings), records.append)
    sending = threading.Thread(target=lambda: asyncio.run(generator.run(time.monotonic())))
    sending.start()
    try:
        yield
    finally:
        generator.finish()
        sending.join()


def capacity_per_s(url: str) -> float:
    """Requests a second that are answered while always a few are asked. Raises RuntimeError for none."""
    records: list[Record] = []
    settings = LoadSettings(
        arrivals=ArrivalSettings(kind=Arrivals.CLOSED, concurrency=_AT_ONCE),
        duration_s=_MEASURES_FOR_S,
        warmup_s=0.0,
    )
    generator = Generator(parse_target(url, ()), settings, workload(settings), records.append)
    asyncio.run(generator.run(time.monotonic()))
    answered = [record for record in records if record.outcome.is_answered]
    if not answered:
        raise RuntimeError("not one request was answered: there is no load to soak it in")
    return len(answered) / max(record.end_s for record in answered)
