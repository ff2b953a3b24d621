"""The loop that sends: requests when they are due, whatever became of those before them."""

import asyncio
import time
from collections.abc import Callable, Iterable, Iterator
from itertools import count, islice

from benchmarks.load import arrivals
from benchmarks.load.arrivals import Arrivals
from benchmarks.load.client import Client
from benchmarks.load.connection import ConnectionPool
from benchmarks.load.outcomes import Outcome, Record
from benchmarks.load.settings import LoadSettings
from benchmarks.load.target import Target
from benchmarks.load.workloads import Prepared, Workload

_MAX_OUTSTANDING = 20_000
"""Requests that one process keeps waiting; each holds its body."""
_YIELD_EVERY = 8
"""Requests sent in a row when many are due, before replies are read again."""
_PAUSE_AFTER_NO_CONNECTION_S = 0.1


class Generator:
    """One process's share of a run."""

    def __init__(
        self,
        target: Target,
        settings: LoadSettings,
        workload: Workload,
        sink: Callable[[Record], None],
        *,
        run: str = "run",
        share: int = 0,
    ) -> None:
        """Sends every request whose number modulo `settings.processes` is `share`."""
        self._target, self._settings, self._workload = target, settings, workload
        self._sink, self._run, self._share = sink, run, share
        self._start_s = 0.0
        self._is_finishing = False
        self.in_flight = 0
        self.due = 0

    def finish(self) -> None:
        """Send nothing more that is not due yet, and only wait for what is in flight; for open loops."""
        self._is_finishing = True

    async def run(self, start_s: float) -> None:
        """Send until the time or the number of requests is over, and wait for what is in flight.

        `start_s` is on the monotonic clock. Cancelled, it hangs up on all that is in flight.
        """
        settings, self._start_s = self._settings, start_s
        connections = max(1, settings.client.connections // settings.processes)
        pool = ConnectionPool(self._target, connections)
        client = Client(self._target, settings.client, pool, run=self._run, start_s=start_s)
        try:
            async with asyncio.TaskGroup() as group:
                if self._workload.background:
                    numbers = count(self._share, settings.processes)
                    for _ in range(self._mine(settings.workload.background)):
                        group.create_task(self._in_turn(client, self._workload.background, numbers))
                if settings.arrivals.kind is Arrivals.CLOSED:
                    for worker in range(self._mine(settings.arrivals.concurrency)):
                        group.create_task(self._closed(client, worker))
                else:
                    await self._open(client, group)
        finally:
            pool.close()

    @property
    def _end_s(self) -> float:
        return self._start_s + self._settings.total_s

    def _mine(self, total: int) -> int:
        """This process's part of a number."""
        return len(range(self._share, total, self._settings.processes))

    async def _open(self, client: Client, group: asyncio.TaskGroup) -> None:
        numbered = enumerate(islice(due_times(self._settings), self._settings.max_requests))
        for index, at_s in islice(numbered, self._share, None, self._settings.processes):
            if at_s >= self._settings.total_s or self._is_finishing:
                return
            prepared = self._workload.request(index)  # before the wait: making it must not delay it
            wait_s = self._start_s + at_s - time.monotonic()
            if wait_s > 0:
                await asyncio.sleep(wait_s)
            elif self.due % _YIELD_EVERY == 0:
                await asyncio.sleep(0)
            self.due += 1
            if self.in_flight >= _MAX_OUTSTANDING:
                self._sink(_not_sent(prepared, index, at_s, time.monotonic() - self._start_s))
            else:
                group.create_task(self._one(client, prepared, index, at_s))

    async def _closed(self, client: Client, worker: int) -> None:
        """One client that waits for each answer before it asks again."""
        settings = self._settings
        first = self._share + worker * settings.processes
        stride = settings.arrivals.concurrency
        await asyncio.sleep(max(0.0, self._start_s - time.monotonic()))
        for index in range(first, settings.max_requests, stride):
            if time.monotonic() >= self._end_s:
                return
            self.due += 1
            prepared = self._workload.request(index)
            await self._one_and_pause(client, prepared, index)

    async def _in_turn(
        self, client: Client, request: Callable[[int], Prepared], numbers: Iterator[int]
    ) -> None:
        """Background calls, one after the other, until the end."""
        await asyncio.sleep(max(0.0, self._start_s - time.monotonic()))
        for index in numbers:
            if time.monotonic() >= self._end_s:
                return
            await self._one_and_pause(client, request(index), index)

    async def _one_and_pause(self, client: Client, prepared: Prepared, index: int) -> None:
        """A request of one that asks in turn: turned away, it waits as long as it was told to.

        Else it would be turned away again at once, and keep the server busy with refusals; or it would
        ask a dead one without a pause.
        """
        record = await self._one(client, prepared, index, time.monotonic() - self._start_s)
        if record.outcome is Outcome.CONNECTION_ERROR:
            await asyncio.sleep(_PAUSE_AFTER_NO_CONNECTION_S)
        elif record.outcome is Outcome.SHED:
            pause_s = record.retry_after_s or _PAUSE_AFTER_NO_CONNECTION_S
            await asyncio.sleep(min(pause_s, max(0.0, self._end_s - time.monotonic())))

    async def _one(self, client: Client, prepared: Prepared, index: int, at_s: float) -> Record:
        self.in_flight += not prepared.is_background
        try:
            record = await client.perform(prepared, index, at_s)
        finally:
            self.in_flight -= not prepared.is_background
        self._sink(record)
        return record


def due_times(settings: LoadSettings) -> Iterable[float]:
    """When each request of an open-loop run is due, in seconds from the start, without an end.

    Raises OSError and ValueError for a trace that cannot be read.
    """
    wanted, rate_per_s, seed = settings.arrivals, settings.offered_per_s, settings.luck
    match wanted.kind:
        case Arrivals.POISSON:
            return arrivals.poisson(rate_per_s, seed)
        case Arrivals.GAMMA:
            return arrivals.gamma(rate_per_s, wanted.cv, seed)
        case Arrivals.CONSTANT:
            return arrivals.constant(rate_per_s)
        case Arrivals.RAMP:
            return arrivals.ramp(rate_per_s, wanted.rate_to_per_s, settings.total_s, seed)
        case Arrivals.TRACE:
            assert wanted.trace is not None
            return arrivals.recorded(wanted.trace)
        case Arrivals.CLOSED:
            raise ValueError("a closed loop has no times at which requests are due")


def _not_sent(prepared: Prepared, index: int, at_s: float, now_s: float) -> Record:
    return Record(
        index, prepared.kind, prepared.is_background, at_s, None, now_s,
        Outcome.CONNECTION_ERROR, code="generator_full", attempts=0,
    )  # fmt: skip
