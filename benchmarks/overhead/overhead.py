"""Serving overhead: the CPU time of a question when every model answers at once.

The whole application runs, each time in a cluster of its own, with Ray's serving modes switched by
environment; and once without Ray, all in one process, which is what ingress, graph and stages cost
themselves. What counts is the CPU time of all processes, which a busy machine disturbs less than the
clock.
"""

import asyncio
import sys
import time
from collections.abc import Mapping
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from typing import Annotated

import aiohttp
import typer
from rich.console import Console

from benchmarks.published import Published
from benchmarks.report import table
from benchmarks.served_application import read_config, served
from benchmarks.server_process import ServerProcess, free_port, running
from crag_core.metrics import percentile

DEFAULT = "Ray's defaults"
MODES: Mapping[str, Mapping[str, str]] = {
    DEFAULT: {"RAY_SERVE_THROUGHPUT_OPTIMIZED": "0"},
    "throughput mode": {"RAY_SERVE_THROUGHPUT_OPTIMIZED": "1"},
    "HAProxy": {"RAY_SERVE_THROUGHPUT_OPTIMIZED": "0", "RAY_SERVE_ENABLE_HA_PROXY": "1"},
    "throughput mode and HAProxy": {
        "RAY_SERVE_THROUGHPUT_OPTIMIZED": "1",
        "RAY_SERVE_ENABLE_HA_PROXY": "1",
    },
}
WITHOUT_RAY = "one process, without Ray"
_BODY = {"question": "When was the lighthouse of the northern coast built?", "trace": False}


@dataclass(frozen=True, slots=True)
class Round:
    """One cluster, once: what its questions cost."""

    mode: str
    questions: int
    cpu_ms_per_question: float
    """Of all processes of the cluster, the idle ones included."""
    idle_cpu_ms_per_s: float
    questions_per_s: float
    p50_ms: float
    p99_ms: float
    cpu_ms_by_process: Mapping[str, float]

    @property
    def cpu_ms_above_idle(self) -> float:
        """Of a question, without what the cluster takes in the same time when it is asked nothing."""
        return self.cpu_ms_per_question - self.idle_cpu_ms_per_s / self.questions_per_s


def overhead(
    config: Annotated[Path, typer.Option(help="Serve config file to take all but the leaves from.")] = (
        Path("configs/embedded.yaml")
    ),
    questions: Annotated[int, typer.Option(help="Questions of a round.", min=50)] = 600,
    concurrency: Annotated[int, typer.Option(help="Questions at a time.", min=1, max=256)] = 16,
    repeats: Annotated[int, typer.Option(help="Interleaved rounds of each mode.", min=1)] = 2,
    only: Annotated[str | None, typer.Option(help="One mode alone, by its name.")] = None,
    out: Annotated[Path | None, typer.Option(help="Folder for JSON and Markdown.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of Markdown.")] = False,
) -> None:
    """Measure the CPU time that ingress, graph and five stages cost a question, by Ray's modes."""
    err = Console(stderr=True)
    content = read_config(config)
    content["applications"][0]["import_path"] = "benchmarks.overhead.instant_app:build_app"
    rounds = []
    for _ in range(repeats):
        for mode in [only] if only else [*MODES, WITHOUT_RAY]:
            err.print(f"{mode}: starting")
            served_so = _in_one_process(config) if mode == WITHOUT_RAY else served(content, MODES[mode])
            with served_so as server:
                rounds.append(asyncio.run(_measured(mode, server, questions, concurrency)))
            err.print(f"{mode}: {rounds[-1].cpu_ms_per_question:.2f} CPU-ms per question")
    found = {"rounds": [asdict(r) for r in rounds]}
    Published("overhead", found, markdown(rounds)).show(as_json=as_json, out=out)


def markdown(rounds: list[Round]) -> str:
    """Medians by mode, and where the CPU time goes."""
    modes = list(dict.fromkeys(r.mode for r in rounds))
    by_mode = {mode: [r for r in rounds if r.mode == mode] for mode in modes}
    cost = {mode: median(r.cpu_ms_per_question for r in by_mode[mode]) for mode in modes}
    rows = [
        [
            mode,
            f"{cost[mode]:.2f}",
            f"{cost[mode] / cost[modes[0]]:.2f}",
            f"{median(r.cpu_ms_above_idle for r in by_mode[mode]):.2f}",
            f"{median(r.idle_cpu_ms_per_s for r in by_mode[mode]):.0f}",
            f"{median(r.questions_per_s for r in by_mode[mode]):.0f}",
            f"{median(r.p50_ms for r in by_mode[mode]):.1f}",
            f"{median(r.p99_ms for r in by_mode[mode]):.1f}",
        ]
        for mode in modes
    ]
    names = sorted({name for r in rounds for name in r.cpu_ms_by_process})
    spent = [
        [name, *(f"{median(_of(r, name) for r in by_mode[mode]):.2f}" for mode in modes)]
        for name in names
    ]
    header = ["mode", "CPU-ms per question", f"x {modes[0]}", "above idle", "idle CPU-ms per s",
              "questions/s", "p50 ms", "p99 ms"]  # fmt: skip
    return "\n\n".join(
        [
            "## Serving overhead, every stage instant",
            table(header, rows),
            "CPU-ms per question by process:",
            table(["process", *modes], spent),
        ]
    )


def _in_one_process(config: Path) -> AbstractContextManager[ServerProcess]:
    port = free_port()
    command = [sys.executable, "-m", "benchmarks.overhead.one_process", str(config), str(port)]
    return running(command, port, "/livez")


def _of(measured: Round, name: str) -> float:
    return measured.cpu_ms_by_process.get(name, 0.0)


async def _measured(mode: str, server: ServerProcess, questions: int, concurrency: int) -> Round:
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=concurrency)) as session:
        await _ask(session, server.url, questions // 4, concurrency)
        before = server.cpu_s_by_process()
        await asyncio.sleep(3)
        idle = server.cpu_s_by_process()
        started = time.perf_counter()
        latencies_ms = await _ask(session, server.url, questions, concurrency)
        seconds = time.perf_counter() - started
        after = server.cpu_s_by_process()
    by_process: dict[str, float] = {}
    for (_, name), cpu_s in after.items():
        spent_s = cpu_s - idle.get((_, name), 0.0)
        by_process[name] = by_process.get(name, 0.0) + 1000 * spent_s / questions
    return Round(
        mode,
        questions,
        sum(by_process.values()),
        1000 * (sum(idle.values()) - sum(before.values())) / 3,
        questions / seconds,
        percentile(latencies_ms, 0.5),
        percentile(latencies_ms, 0.99),
        {name: ms for name, ms in by_process.items() if ms >= 0.01},
    )


async def _ask(
    session: aiohttp.ClientSession, url: str, questions: int, concurrency: int
) -> list[float]:
    """Ask so many questions, so many at a time; their latencies in ms. Raises when one fails."""
    left = iter(range(questions))
    latencies_ms: list[float] = []

    async def one_after_another() -> None:
        for _ in left:
            started = time.perf_counter()
            async with session.post(f"{url}/v1/answer", json=_BODY) as reply:
                answer = await reply.json()
            if reply.status != 200 or answer["action"] != "ambiguous" or answer["degraded"]:
                raise RuntimeError(f"an instant answer failed with {reply.status}: {answer}")
            latencies_ms.append(1000 * (time.perf_counter() - started))

    await asyncio.gather(*(one_after_another() for _ in range(concurrency)))
    return latencies_ms
