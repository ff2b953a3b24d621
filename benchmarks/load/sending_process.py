"""What runs in a process that sends."""

import asyncio
import gc
import resource
import signal
import time
from dataclasses import dataclass
from multiprocessing.connection import Connection as Pipe

import uvloop

from benchmarks.load.generator import Generator
from benchmarks.load.outcomes import Record
from benchmarks.load.settings import LoadSettings
from benchmarks.load.target import Target
from benchmarks.load.workloads import workload

FLUSH_S = 0.2


@dataclass(frozen=True, slots=True)
class Batch:
    """What a process reports now and then; its first says that it is ready, and holds nothing."""

    records: list[Record]
    due: int = 0
    in_flight: int = 0
    busy: float = 0.0
    cpu_s: float = 0.0
    is_last: bool = False


def send_share(
    orders: Pipe, batches: Pipe, target: Target, settings: LoadSettings, run_id: str, share: int
) -> None:
    """Send this process's share: the first order is the start, any other, or its end, the stop."""
    # Ctrl-C reaches the whole group of processes: what it means is the listener's to say
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    _, most_files = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most_files, most_files))
    records: list[Record] = []
    generator = Generator(target, settings, workload(settings), records.append, run=run_id, share=share)
    gc.collect()
    gc.freeze()  # the workload's texts need not be looked at again and again
    try:
        batches.send(Batch([]))
        start_s = orders.recv()
        uvloop.run(send_and_report(orders, batches, generator, records, start_s))
    except (ConnectionError, EOFError):
        return  # the listener is gone, and nobody wants the rest


async def send_and_report(
    orders: Pipe, batches: Pipe, generator: Generator, records: list[Record], start_s: float
) -> None:
    """Run the generator, and report what it puts into `records` now and then."""
    loop = asyncio.get_running_loop()
    sending = asyncio.create_task(generator.run(start_s))
    # this makes the pipe of orders, and only that, one that does not block
    loop.add_reader(orders.fileno(), sending.cancel)
    started_s, cpu_s = time.monotonic(), time.process_time()

    def batch(*, is_last: bool = False) -> Batch:
        taken, records[:] = records[:], []
        used_s = time.process_time() - cpu_s
        busy = used_s / max(1e-9, time.monotonic() - started_s)
        return Batch(taken, generator.due, generator.in_flight, busy, used_s, is_last)

    try:
        while not sending.done():
            await asyncio.wait([sending], timeout=FLUSH_S)
            await loop.run_in_executor(None, batches.send, batch())
    finally:
        loop.remove_reader(orders.fileno())
        sending.cancel()
    if not sending.cancelled():
        sending.result()
    await loop.run_in_executor(None, batches.send, batch(is_last=True))
