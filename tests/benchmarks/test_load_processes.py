"""Sending processes: whole messages whatever their size, and none left behind."""

import asyncio
import multiprocessing
import subprocess
import sys
import threading
import time
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from pathlib import Path

import pytest
import uvloop

from benchmarks.load.outcomes import Outcome, Record
from benchmarks.load.processes import Ending, ProcessDied, run_load
from benchmarks.load.sending_process import Batch, send_and_report
from benchmarks.load.settings import LoadSettings
from tests.benchmarks.servers import answers, serving_on_thread, target

ROOT = Path(__file__).parents[2]
RECORD = Record(0, "answer", False, 0.0, 0.0, 0.1, Outcome.OK, code="c" * 40)
W4 = {"workload": {"name": "w4"}, "warmup_s": 0, "arrivals": {"rate_per_s": 50}}


@dataclass
class FloodingGenerator:
    """Ends ten thousand requests at once, then waits as long as it is told."""

    records: list[Record] = field(default_factory=list)
    lasts_s: float = 0.0
    due: int = 0
    in_flight: int = 0

    async def run(self, start_s: float) -> None:
        self.records += [RECORD._replace(number=number) for number in range(10_000)]
        await asyncio.sleep(self.lasts_s)


def flooded(generator: FloodingGenerator) -> tuple[threading.Thread, Connection, Connection]:
    their_orders, orders = multiprocessing.Pipe(duplex=False)
    batches, their_batches = multiprocessing.Pipe(duplex=False)
    report = send_and_report(their_orders, their_batches, generator, generator.records, 0.0)

    def work() -> None:
        try:
            uvloop.run(report)
        finally:
            their_batches.close()  # as the end of a process does

    thread = threading.Thread(target=work)
    thread.start()
    return thread, orders, batches


def test_a_batch_larger_than_the_pipe_arrives_whole() -> None:
    thread, _, batches = flooded(FloodingGenerator())
    time.sleep(0.5)  # the pipe is full, and the rest has to wait
    received = [batches.recv()]
    while not received[-1].is_last:
        received.append(batches.recv())
    thread.join(5)
    assert sum(len(batch.records) for batch in received) == 10_000


def test_stopped_it_still_reports_what_it_has() -> None:
    thread, orders, batches = flooded(FloodingGenerator(lasts_s=60))
    received: list[Batch] = [batches.recv()]
    orders.close()
    while not received[-1].is_last:
        received.append(batches.recv())
    thread.join(5)
    assert not thread.is_alive()
    assert sum(len(batch.records) for batch in received) == 10_000


def test_a_watch_that_has_seen_enough_ends_the_run_and_its_processes() -> None:
    settings = LoadSettings.model_validate(W4 | {"duration_s": 60, "processes": 2})
    started_s = time.monotonic()
    with serving_on_thread(answers) as port:
        run = run_load(target(port), settings, "r", lambda run, _: len(run.records) >= 10)
    assert run.ending is Ending.BY_WATCH and len(run.records) >= 10
    assert time.monotonic() - started_s < 30
    assert multiprocessing.active_children() == []


def test_a_process_that_dies_is_told(tmp_path: Path) -> None:
    settings = LoadSettings.model_validate(
        W4 | {"workload": {"name": "data", "data": tmp_path}, "duration_s": 1}
    )
    with pytest.raises(ProcessDied):
        run_load(target(1), settings, "r", lambda *_: False)
    assert multiprocessing.active_children() == []


def test_the_command_loads_neither_pytorch_nor_ray() -> None:
    program = (
        "import sys, runpy; sys.argv = ['benchmarks', 'load', '--find-max']\n"
        "try: runpy.run_module('benchmarks', run_name='__main__')\n"
        "except SystemExit as end: assert end.code == 2, end\n"
        "print(*sys.modules)"
    )
    loaded = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, cwd=ROOT
    ).stdout.split()
    assert "benchmarks.load.session" in loaded
    assert not {"torch", "ray", "transformers", "matplotlib"} & set(loaded)
