"""The processes that send, and the one that listens to them: drawing and counting must not delay it."""

import multiprocessing
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import StrEnum
from multiprocessing.connection import Connection as Pipe
from multiprocessing.connection import wait
from multiprocessing.context import SpawnProcess
from threading import Event
from types import FrameType

from benchmarks.load.outcomes import Record
from benchmarks.load.sending_process import FLUSH_S, Batch, send_share
from benchmarks.load.settings import LoadSettings
from benchmarks.load.target import Target

_HEAD_START_S = 0.1
_STOP_TIMEOUT_S = 10.0


class ProcessDied(RuntimeError):
    """A sending process ended without its last batch."""


class Ending(StrEnum):
    """What ended a run; what was in flight is known of those that are complete, and of no other."""

    COMPLETE = "complete"
    BY_WATCH = "by_watch"
    """Its watch had seen enough."""
    BY_USER = "by_user"
    """Ctrl-C."""


@dataclass(slots=True)
class Run:
    """What is known of a run, while it goes on and afterwards."""

    settings: LoadSettings
    id: str
    start_s: float = 0.0
    records: list[Record] = field(default_factory=list)
    due: int = 0
    in_flight: int = 0
    busy: float = 0.0
    """CPU use of the busiest process, as a share of a core."""
    cpu_s: float = 0.0
    """CPU time of all of them."""
    ending: Ending = Ending.COMPLETE

    @property
    def elapsed_s(self) -> float:
        """Seconds since the start."""
        return max(0.0, time.monotonic() - self.start_s) if self.start_s else 0.0


Watch = Callable[[Run, Sequence[Record]], bool]


@dataclass(slots=True)
class _Sender:
    """One process, as the listener sees it."""

    process: SpawnProcess
    orders: Pipe
    batches: Pipe
    latest: Batch | None = None

    def take(self) -> list[Record]:
        """The records of its next batch. Raises ProcessDied."""
        try:
            batch: Batch = self.batches.recv()
        except (EOFError, OSError) as error:
            raise ProcessDied("a sending process died: its error stands above") from error
        self.latest = batch
        return batch.records

    @property
    def is_ready(self) -> bool:
        return self.latest is not None

    @property
    def is_sending(self) -> bool:
        return self.latest is None or not self.latest.is_last

    def end(self) -> None:
        """Let it go; by force when it will not."""
        self.orders.close()
        self.batches.close()
        self.process.join(_STOP_TIMEOUT_S)
        if self.process.is_alive():
            self.process.kill()


def run_load(target: Target, settings: LoadSettings, run_id: str, watch: Watch) -> Run:
    """One run; `watch` sees the run and each batch of records, and ends it by returning True.

    Ctrl-C ends it too: the run is returned with what was seen, and says so.
    Raises ProcessDied when a sending process does.
    """
    run = Run(settings, run_id)
    senders: list[_Sender] = []
    with _asked_to_stop() as is_asked:
        try:
            senders += [_started(target, settings, run_id, n) for n in range(settings.processes)]
            _listen(senders, run, watch, is_asked)
        finally:
            for sender in senders:
                sender.end()
    return run


def _started(target: Target, settings: LoadSettings, run_id: str, share: int) -> _Sender:
    spawn = multiprocessing.get_context("spawn")
    their_orders, orders = spawn.Pipe(duplex=False)
    batches, their_batches = spawn.Pipe(duplex=False)
    arguments = (their_orders, their_batches, target, settings, run_id, share)
    process = spawn.Process(target=send_share, args=arguments, daemon=True)
    process.start()
    their_orders.close()
    their_batches.close()
    return _Sender(process, orders, batches)


def _listen(senders: Sequence[_Sender], run: Run, watch: Watch, is_asked: Event) -> None:
    while sending := {sender.batches: sender for sender in senders if sender.is_sending}:
        fresh: list[Record] = []
        for pipe in wait(list(sending), timeout=FLUSH_S):
            assert isinstance(pipe, Pipe)
            fresh += sending[pipe].take()
        if not run.start_s and all(sender.is_ready for sender in senders):
            run.start_s = time.monotonic() + _HEAD_START_S
            for sender in senders:
                sender.orders.send(run.start_s)
        _note(senders, run, fresh)
        has_seen_enough = watch(run, fresh)
        if is_asked.is_set() or has_seen_enough:
            run.ending = Ending.BY_USER if is_asked.is_set() else Ending.BY_WATCH
            _stop(senders, run)
            return


def _note(senders: Sequence[_Sender], run: Run, fresh: Sequence[Record]) -> None:
    latest = [sender.latest for sender in senders if sender.latest]
    run.records += fresh
    run.due = sum(batch.due for batch in latest)
    run.in_flight = sum(batch.in_flight for batch in latest)
    run.cpu_s = sum(batch.cpu_s for batch in latest)
    run.busy = max((batch.busy for batch in latest), default=0.0)


def _stop(senders: Sequence[_Sender], run: Run) -> None:
    """Have them hang up on all that is in flight, and take what they still have."""
    for sender in senders:
        sender.orders.close()
    give_up_s = time.monotonic() + _STOP_TIMEOUT_S
    for sender in senders:
        while sender.is_ready and sender.is_sending:
            if not sender.batches.poll(max(0.0, give_up_s - time.monotonic())):
                break
            try:
                run.records += sender.take()
            except ProcessDied:  # and what it still had is gone with it
                break


@contextmanager
def _asked_to_stop() -> Iterator[Event]:
    """Set by Ctrl-C and SIGTERM: as an exception they could come in the middle of a message."""
    is_asked = Event()

    def ask(signal_: int, frame: FrameType | None) -> None:
        is_asked.set()

    before = {name: signal.signal(name, ask) for name in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield is_asked
    finally:
        for name, handler in before.items():
            signal.signal(name, handler)
