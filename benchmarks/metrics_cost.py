"""What metrics cost: throughput with and without them, a scrape under load, and how many series.

Two clusters with instant stages run side by side, one that records and one that does not, and are asked
in turns, so that whatever else the machine does falls on both.
"""

import asyncio
import json
import time
import uuid
from contextlib import ExitStack
from copy import deepcopy
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from typing import Annotated

import aiohttp
import typer
from rich.console import Console

from benchmarks.report import table
from benchmarks.served_application import Config, read_config, served
from benchmarks.server_process import ServerProcess

_BODY = {"question": "When was the lighthouse of the northern coast built?", "trace": False}
_EXPORTED_AFTER_S = 12.0
"""Ray's agents hear of a process's metrics every 10 s."""


@dataclass(frozen=True, slots=True)
class Turn:
    """So many questions to one cluster, then to the other."""

    with_s: float
    without_s: float
    cpu_with_s: float
    cpu_without_s: float


@dataclass(frozen=True, slots=True)
class Cost:
    """The whole measurement."""

    questions_per_turn: int
    turns: tuple[Turn, ...]
    scrapes_ms: tuple[float, ...]
    """Of the loaded application's page of metrics, one by one."""
    series_fresh: int
    series_loaded: int
    series_hammered: int
    """After requests with made-up paths, pipelines, fields and keys."""


def metrics_cost(
    config: Annotated[Path, typer.Option(help="Serve config file to take all but the stages from.")] = (
        Path("configs/embedded.yaml")
    ),
    turns: Annotated[int, typer.Option(help="Turns of both clusters.", min=1)] = 20,
    questions: Annotated[int, typer.Option(help="Questions of a turn.", min=10)] = 100,
    concurrency: Annotated[int, typer.Option(help="Questions at a time.", min=1, max=256)] = 16,
    hostile: Annotated[int, typer.Option(help="Hostile requests.", min=1)] = 500,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of Markdown.")] = False,
) -> None:
    """Measure metrics switched on against off, a scrape under load, and the number of series."""
    content = read_config(config)
    content["applications"][0]["import_path"] = "benchmarks.overhead.instant_app:build_app"
    err = Console(stderr=True)
    with ExitStack() as stack:
        recording, silent = (
            stack.enter_context(served(_recording(content, is_on))) for is_on in (True, False)
        )
        err.print("both clusters are up")
        cost = asyncio.run(_measured(recording, silent, turns, questions, concurrency, hostile))
    print(json.dumps(asdict(cost), indent=1) if as_json else markdown(cost))


def markdown(cost: Cost) -> str:
    """Medians, and how far the turns lie apart."""
    rates = [cost.questions_per_turn / turn.with_s for turn in cost.turns]
    silent = [cost.questions_per_turn / turn.without_s for turn in cost.turns]
    rows = [
        ["throughput, with by without", *_spread([turn.without_s / turn.with_s for turn in cost.turns])],
        ["CPU time, with by without", *_spread([t.cpu_with_s / t.cpu_without_s for t in cost.turns])],
        ["questions per s, with", *_spread(rates)],
        ["questions per s, without", *_spread(silent)],
        ["scrape under load, ms", *_spread(list(cost.scrapes_ms))],
    ]
    counts = [[str(cost.series_fresh), str(cost.series_loaded), str(cost.series_hammered)]]
    return "\n\n".join(
        [
            f"## Metrics on and off, {len(cost.turns)} turns of {cost.questions_per_turn} questions",
            table(["", "median", "lowest", "highest"], rows),
            table(["series, fresh", "loaded", "hammered"], counts),
        ]
    )


def _spread(values: list[float]) -> list[str]:
    return [f"{value:.3g}" for value in (median(values), min(values), max(values))]


def _recording(content: Config, is_on: bool) -> Config:
    changed = deepcopy(content)
    changed["applications"][0]["args"].setdefault("observability", {})["metrics"] = is_on
    return changed


async def _measured(
    recording: ServerProcess,
    silent: ServerProcess,
    turns: int,
    questions: int,
    concurrency: int,
    hostile: int,
) -> Cost:
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=concurrency + 1)) as session:
        fresh = await _series(session, recording.url)
        for server in (recording, silent):
            await _ask(session, server.url, questions, concurrency)
        measured = [
            Turn(*await _turn(session, recording, silent, questions, concurrency, is_odd=bool(n % 2)))
            for n in range(turns)
        ]
        load = asyncio.create_task(_ask(session, recording.url, 20 * questions, concurrency))
        scrapes_ms = []
        while not load.done():
            started = time.perf_counter()
            loaded = await _series(session, recording.url)
            scrapes_ms.append(1000 * (time.perf_counter() - started))
            await asyncio.sleep(0.5)
        await load
        await _hammer(session, recording.url, hostile)
        await asyncio.sleep(_EXPORTED_AFTER_S)
        hammered = await _series(session, recording.url)
    return Cost(questions, tuple(measured), tuple(scrapes_ms), fresh, loaded, hammered)


async def _turn(
    session: aiohttp.ClientSession,
    recording: ServerProcess,
    silent: ServerProcess,
    questions: int,
    concurrency: int,
    *,
    is_odd: bool,
) -> tuple[float, float, float, float]:
    spent = {}
    for server in (silent, recording) if is_odd else (recording, silent):
        cpu_s, started = server.cpu_s(), time.perf_counter()
        await _ask(session, server.url, questions, concurrency)
        spent[server.url] = time.perf_counter() - started, server.cpu_s() - cpu_s
    (with_s, cpu_with_s), (without_s, cpu_without_s) = spent[recording.url], spent[silent.url]
    return with_s, without_s, cpu_with_s, cpu_without_s


async def _ask(session: aiohttp.ClientSession, url: str, questions: int, concurrency: int) -> None:
    """Ask so many questions, so many at a time. Raises when one fails."""
    left = iter(range(questions))

    async def one_after_another() -> None:
        for _ in left:
            async with session.post(f"{url}/v1/answer", json=_BODY) as reply:
                if reply.status != 200:
                    raise RuntimeError(f"an instant answer failed: {await reply.text()}")
                await reply.read()

    await asyncio.gather(*(one_after_another() for _ in range(concurrency)))


async def _series(session: aiohttp.ClientSession, url: str) -> int:
    async with session.get(f"{url}/metrics") as reply:
        page = await reply.text()
    return sum(1 for line in page.splitlines() if line and not line.startswith("#"))


async def _hammer(session: aiohttp.ClientSession, url: str, requests: int) -> None:
    for _ in range(requests):
        strange = uuid.uuid4().hex
        headers = {"authorization": f"Bearer {strange}", "x-request-id": strange}
        async with session.get(f"{url}/{strange}", headers=headers) as reply:
            await reply.read()
        for body in ({"question": "Who?", "pipeline": strange}, {strange: strange}):
            async with session.post(f"{url}/v1/answer", json=body, headers=headers) as reply:
                await reply.read()
