"""The search pool: what a question costs the client, what is asked twice, and an hour of faults."""

import asyncio
import json
import logging
import multiprocessing
import socket
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated

import aiohttp
import ray
import typer
import uvloop
from aiohttp import web

from benchmarks.faulted_hour import Hour, faulted_hour
from benchmarks.report import table
from deployments.backends.wikipedia.budget import SearchBudget
from deployments.backends.wikipedia.mediawiki import open_transport
from deployments.backends.wikipedia.parameters import search_parameters
from deployments.backends.wikipedia.pool_observer import CacheUse
from deployments.backends.wikipedia.shared_pool import SharedPool
from deployments.backends.wikipedia.transport import PooledTransport
from deployments.search_budget import SearchBudgetActor
from deployments.settings import MediaWikiSettings, SearchBudgetSettings
from deployments.shared_actors import SearchBudgetClient

_HOST = "127.0.0.1"
_IN_FLIGHT = 3
_INTRODUCTION = "The pool is a reservoir of requests that several replicas draw from. " * 20
_PAGES = 7
_COUNTED = "/counted"

Ask = Callable[[str], Awaitable[object]]


@dataclass(frozen=True, slots=True)
class Cost:
    """CPU milliseconds of this process per question, over `questions` of them."""

    what: str
    questions: int
    cpu_ms: float
    wall_ms: float


def search_pool(
    questions: Annotated[int, typer.Option(help="Questions of each measurement.")] = 500,
    replicas: Annotated[int, typer.Option(help="Replicas of the simulated hour.")] = 4,
    rate: Annotated[float, typer.Option(help="Questions per second of that hour.")] = 4.0,
    with_ray: Annotated[
        bool, typer.Option("--ray/--no-ray", help="Also measure the budget in an actor.")
    ] = True,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
    out: Annotated[Path | None, typer.Option(help="Also write the JSON here.")] = None,
) -> None:
    """Measure the search pool against a wiki on loopback, and through a simulated hour of faults."""
    logging.disable(logging.WARNING)  # the faults of the hour
    costs, sent = uvloop.run(_against_a_wiki(questions, with_ray))
    hour = faulted_hour(replicas, rate)
    found = {
        "client_cost": [asdict(cost) for cost in costs],
        "repeats": {"questions": 200, "distinct": 100, "requests": sent},
        "faulted_hour": {"replicas": replicas, "questions_per_s": rate, **_figures(hour)},
    }
    if out is not None:
        out.write_text(json.dumps(found, indent=2) + "\n", encoding="utf-8")
    print(json.dumps(found) if as_json else _report(costs, sent, _figures(hour)))


async def _against_a_wiki(questions: int, with_ray: bool) -> tuple[list[Cost], int]:
    async with _wiki() as settings:
        costs = [await _plain(settings, questions)]
        costs += await _pooled("pool in the process", settings, SharedPool(settings), questions)
        if with_ray:
            ray.init(address="local", num_cpus=2, include_dashboard=False, log_to_driver=False)
            try:
                client = SearchBudgetClient(SearchBudgetActor, settings)
                await client.recall_stale([])  # starts the actor
                costs += await _pooled("pool in an actor", settings, client, questions)
            finally:
                ray.shutdown()
        return costs, await _requests_of_repeats(settings)


async def _plain(settings: MediaWikiSettings, questions: int) -> Cost:
    """What a bare HTTP client costs for the same requests."""
    async with aiohttp.ClientSession() as session:

        async def ask(query: str) -> None:
            async with session.get(settings.api_url, params=search_parameters(query, 5)) as response:
                json.loads(await response.read())

        return await _cost("bare aiohttp, no pool", questions, "plain", ask)


async def _pooled(
    name: str, settings: MediaWikiSettings, budget: SearchBudget, questions: int
) -> list[Cost]:
    transport = open_transport(settings, budget)

    async def ask(query: str) -> None:
        await transport.query(search_parameters(query, 5), timeout_s=6.0)

    try:
        await ask("warm up")
        await asyncio.sleep(1.0)  # the bucket fills
        return [
            await _cost(f"{name}, fetched", questions, name, ask),
            await _cost(f"{name}, known", questions, name, ask),
        ]
    finally:
        await transport.close()


async def _cost(what: str, questions: int, prefix: str, ask: Ask) -> Cost:
    queries = iter([f"{prefix} {number}" for number in range(questions)])

    async def worker() -> None:
        for query in queries:
            await ask(query)

    wall_s, cpu_s = time.perf_counter(), time.process_time()
    await asyncio.gather(*(worker() for _ in range(_IN_FLIGHT)))
    wall_s, cpu_s = time.perf_counter() - wall_s, time.process_time() - cpu_s
    return Cost(what, questions, 1000 * cpu_s / questions, 1000 * wall_s / questions)


async def _requests_of_repeats(settings: MediaWikiSettings) -> int:
    """Requests that reach the wiki for 200 questions at once, half of them repeats, over 4 replicas."""
    pool = SharedPool(settings)
    replicas: list[PooledTransport] = [open_transport(settings, pool) for _ in range(4)]
    before = await _counted(settings)
    await asyncio.gather(
        *(
            replicas[number % 4].query(search_parameters(f"repeated {number % 100}", 5), timeout_s=6.0)
            for number in range(200)
        )
    )
    for replica in replicas:
        await replica.close()
    return await _counted(settings) - before


async def _counted(settings: MediaWikiSettings) -> int:
    async with (
        aiohttp.ClientSession() as session,
        session.get(settings.api_url.removesuffix("/w/api.php") + _COUNTED) as response,
    ):
        return int(await response.text())


@asynccontextmanager
async def _wiki() -> AsyncIterator[MediaWikiSettings]:
    """A wiki in a process of its own, so that its CPU is not counted, and settings without a pace."""
    with socket.socket() as probe:
        probe.bind((_HOST, 0))
        port: int = probe.getsockname()[1]
    server = multiprocessing.get_context("spawn").Process(target=_serve, args=(port,), daemon=True)
    server.start()
    settings = MediaWikiSettings(
        api_url=f"http://{_HOST}:{port}/w/api.php",
        budget=SearchBudgetSettings(requests_per_minute=600_000, burst=1_000, max_in_flight=_IN_FLIGHT),
    )
    try:
        for _ in range(100):
            try:
                await _counted(settings)
                break
            except aiohttp.ClientConnectionError:
                await asyncio.sleep(0.1)
        yield settings
    finally:
        server.terminate()
        server.join()


def _serve(port: int) -> None:
    requests = 0
    pages = [
        {"pageid": n, "title": f"Page {n}", "index": n, "extract": _INTRODUCTION, "lastrevid": n}
        for n in range(1, _PAGES + 1)
    ]
    answer = {"batchcomplete": True, "query": {"pages": pages}}

    async def search(_: web.Request) -> web.Response:
        nonlocal requests
        requests += 1
        return web.json_response(answer)

    async def counted(_: web.Request) -> web.Response:
        return web.Response(text=str(requests))

    app = web.Application()
    app.add_routes([web.get("/w/api.php", search), web.get(_COUNTED, counted)])
    web.run_app(app, host=_HOST, port=port, print=lambda *_: None, access_log=None)


def _figures(hour: Hour) -> Mapping[str, object]:
    return {
        "asked": hour.asked,
        "answered": hour.answered,
        "answered_stale": hour.tally.cache[CacheUse.STALE],
        "told_why_not": dict(hour.errors),
        "died_with_their_replica": hour.killed,
        "told_nothing": hour.unanswered,
        "wrong": hour.wrong,
        "late": hour.late,
        "requests": hour.sent,
        "most_requests_in_60_s": hour.most_in_a_minute,
        "most_in_flight": hour.most_in_flight,
        "sent_in_a_pause": hour.sent_in_a_pause,
        "over_the_servers_limit": hour.over_limit,
        "retries": hour.tally.retries[True],
        "longest_wait_s": round(hour.tally.longest_wait_s, 2),
    }


def _report(costs: list[Cost], sent: int, hour: Mapping[str, object]) -> str:
    rows = [[c.what, str(c.questions), f"{c.cpu_ms:.2f}", f"{c.wall_ms:.2f}"] for c in costs]
    return "\n\n".join(
        [
            "## What a question costs the client",
            table(["", "questions", "CPU ms each", "wall ms each"], rows),
            "## 200 questions at once, half of them repeats",
            f"{sent} requests for 100 distinct questions",
            "## An hour of faults, simulated",
            table(["", ""], [[name.replace("_", " "), str(value)] for name, value in hour.items()]),
        ]
    )
