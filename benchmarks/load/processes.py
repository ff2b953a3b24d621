"""The processes that send, and the one that listens to them: drawing and counting must not delay it."""

import asyncio
import gc
import multiprocessing
import resource
import signal
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from multiprocessing.connection import Connection as Pipe
from multiprocessing.connection import wait

import uvloop

from benchmarks.load.generator import Generator
from benchmarks.load.outcomes import Record
from benchmarks.load.settings import LoadSettings
from benchmarks.load.target import Target
from benchmarks.load.workloads import workload

_FLUSH_S = 0.2
_HEAD_START_S = 0.1
_READY_TIMEOUT_S = 120.0
_STOP_TIMEOUT_S = 10.0


class ProcessDied(RuntimeError):
    """A sending process ended without its last batch."""


@dataclass(frozen=True, slots=True)
class Batch:
    """What a process reports now and then."""

    records: list[Record]
    due: int
    in_flight: int
    busy: float
    is_last: bool = False


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
    ending: Ending = Ending.COMPLETE

    @property
    def elapsed_s(self) -> float:
        """Seconds since the start."""
        return max(0.0, time.monotonic() - self.start_s) if self.start_s else 0.0


Watch = Callable[[Run, Sequence[Record]], bool]


def run_load(target: Target, settings: LoadSettings, run_id: str, watch: Watch) -> Run:
    """One run; `watch` sees the run and each batch of records, and ends it by returning True.

    Ctrl-C ends it too: the run is returned with what was seen, and says so.
    Raises ProcessDied when a sending process does.
    """
    spawn = multiprocessing.get_context("spawn")
    run = Run(settings, run_id)
    pipes: list[Pipe] = []
    processes = []
    try:
        for share in range(settings.processes):
            ours, theirs = spawn.Pipe()
            process = spawn.Process(
                target=_process, args=(theirs, target, settings, run_id, share), daemon=True
            )
            process.start()
            theirs.close()
            pipes.append(ours)
            processes.append(process)
        _start_together(pipes, run)
        _listen(pipes, run, watch)
    except KeyboardInterrupt:
        run.ending = Ending.BY_USER
        _stop(pipes, run)
    finally:
        for pipe in pipes:
            pipe.close()
        for process in processes:
            process.join(_STOP_TIMEOUT_S)
            if process.is_alive():
                process.kill()
    return run


def _start_together(pipes: Sequence[Pipe], run: Run) -> None:
    for pipe in pipes:
        if not pipe.poll(_READY_TIMEOUT_S):
            raise ProcessDied(f"a sending process was not ready within {_READY_TIMEOUT_S:g} s")
        _received(pipe)
    run.start_s = time.monotonic() + _HEAD_START_S
    for pipe in pipes:
        pipe.send(run.start_s)


def _listen(pipes: Sequence[Pipe], run: Run, watch: Watch) -> None:
    latest: dict[Pipe, Batch] = {}
    sending = list(pipes)
    while sending:
        fresh: list[Record] = []
        for pipe in wait(sending, timeout=_FLUSH_S):
            assert isinstance(pipe, Pipe)
            batch = _received(pipe)
            latest[pipe] = batch
            fresh += batch.records
            if batch.is_last:
                sending.remove(pipe)
        run.records += fresh
        run.due = sum(batch.due for batch in latest.values())
        run.in_flight = sum(batch.in_flight for batch in latest.values())
        run.busy = max((batch.busy for batch in latest.values()), default=0.0)
        if watch(run, fresh) and sending:
            run.ending = Ending.BY_WATCH
            _stop(sending, run)
            return


def _stop(pipes: Sequence[Pipe], run: Run) -> None:
    """Hang up on all that is in flight, and take what the processes still have."""
    for pipe in pipes:
        try:
            pipe.send(None)
            while pipe.poll(_STOP_TIMEOUT_S):
                batch = _received(pipe)
                run.records += batch.records
                if batch.is_last:
                    break
        except (OSError, ProcessDied):
            continue  # it is gone already, and so is what it had


def _received(pipe: Pipe) -> Batch:
    try:
        batch: Batch = pipe.recv()
    except EOFError as error:
        raise ProcessDied("a sending process died: its error stands above") from error
    return batch


# what runs in a sending process


def _process(pipe: Pipe, target: Target, settings: LoadSettings, run_id: str, share: int) -> None:
    # Ctrl-C reaches the whole group of processes: what it means is the listener's to say
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    _, most_files = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most_files, most_files))
    uvloop.run(_send(pipe, target, settings, run_id, share))


async def _send(pipe: Pipe, target: Target, settings: LoadSettings, run_id: str, share: int) -> None:
    loop = asyncio.get_running_loop()
    records: list[Record] = []
    generator = Generator(target, settings, workload(settings), records.append, run=run_id, share=share)
    gc.collect()
    gc.freeze()  # the workload's texts need not be looked at again and again
    await loop.run_in_executor(None, pipe.send, Batch([], 0, 0, 0.0))
    start_s = await loop.run_in_executor(None, pipe.recv)
    if start_s is None:
        return
    sending = asyncio.create_task(generator.run(start_s))
    # the only thing that comes now is the word to stop, or the end of the listener
    loop.add_reader(pipe.fileno(), sending.cancel)
    started_s, cpu_s = time.monotonic(), time.process_time()

    def batch(*, is_last: bool = False) -> Batch:
        taken, records[:] = records[:], []
        busy = (time.process_time() - cpu_s) / max(1e-9, time.monotonic() - started_s)
        return Batch(taken, generator.due, generator.in_flight, busy, is_last)

    try:
        while not sending.done():
            await asyncio.wait([sending], timeout=_FLUSH_S)
            await loop.run_in_executor(None, pipe.send, batch())
    except OSError:  # the listener is gone, and nobody wants the rest
        sending.cancel()
        return
    loop.remove_reader(pipe.fileno())
    if not sending.cancelled():
        sending.result()
    await loop.run_in_executor(None, pipe.send, batch(is_last=True))
