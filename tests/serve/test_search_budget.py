"""Two searcher replicas and the one budget that they share, on a real Ray cluster."""

import asyncio
import re
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import psutil
import pytest
import ray
from aiohttp import web
from ray import serve

from crag_core.context import RequestContext
from crag_core.errors import SearchThrottled
from crag_core.types import Document, DocumentSource
from deployments.backends.wikipedia.budget import Acquire, Lease, Outcome, Report
from deployments.clients import SearchBudgetClient, SearcherClient
from deployments.observability.gather import gather_metrics
from deployments.search_budget import SearchBudgetActor
from deployments.searcher import Searcher
from deployments.settings import MediaWikiSettings, SearchBudgetSettings, SearcherSettings
from tests.serve.conftest import free_port

pytestmark = pytest.mark.serve

MAX_IN_FLIGHT = 2
HOST = "127.0.0.1"


@dataclass
class CountingWiki:
    """A wiki on loopback, in a thread of its own, that counts who asks it what."""

    port: int = field(default_factory=free_port)
    queries: list[str] = field(default_factory=list)
    processes: set[int | None] = field(default_factory=set)
    in_flight: int = 0
    most_in_flight: int = 0
    retry_after_s: int = 0

    async def answer(self, request: web.Request) -> web.Response:
        self.queries.append(request.query["gsrsearch"])
        if self.retry_after_s:
            return web.Response(status=429, headers={"Retry-After": str(self.retry_after_s)})
        self.processes.add(process_at(request))
        self.in_flight += 1
        self.most_in_flight = max(self.most_in_flight, self.in_flight)
        await asyncio.sleep(0.05)
        self.in_flight -= 1
        page = {"pageid": 1, "title": request.query["gsrsearch"], "extract": "text", "index": 1}
        return web.json_response({"query": {"pages": [page]}})

    def run(self) -> None:
        app = web.Application()
        app.router.add_get("/w/api.php", self.answer)
        web.run_app(app, host=HOST, port=self.port, handle_signals=False, print=lambda *_: None)


def process_at(request: web.Request) -> int | None:
    assert request.transport is not None
    address = request.transport.get_extra_info("peername")[:2]
    connections = psutil.net_connections("tcp4")
    return next((c.pid for c in connections if c.laddr and tuple(c.laddr) == address), None)


@pytest.fixture(scope="module")
def wiki() -> CountingWiki:
    wiki = CountingWiki()
    threading.Thread(target=wiki.run, daemon=True).start()
    return wiki


def settings_for(wiki: CountingWiki) -> MediaWikiSettings:
    return MediaWikiSettings(
        api_url=f"http://{HOST}:{wiki.port}/w/api.php",
        budget=SearchBudgetSettings(
            requests_per_minute=6_000, burst=20, max_in_flight=MAX_IN_FLIGHT, share_when_lost=0.5
        ),
    )


@pytest.fixture(scope="module")
def searcher(wiki: CountingWiki) -> Iterator[SearcherClient]:
    settings = settings_for(wiki)
    ray.init(
        address="local", namespace="serve", num_cpus=2, include_dashboard=False, log_to_driver=False
    )
    try:
        deployment: Any = serve.deployment(
            num_replicas=2, max_ongoing_requests=100, ray_actor_options={"num_cpus": 0.1}
        )(Searcher)
        budget = SearchBudgetClient(SearchBudgetActor, settings)
        handle = serve.run(
            deployment.bind(SearcherSettings(mediawiki=settings), budget), route_prefix=None
        )
        yield SearcherClient(handle, DocumentSource.WIKIPEDIA)
    finally:
        serve.shutdown()
        ray.shutdown()


def search(searcher: SearcherClient, queries: Sequence[str]) -> list[Any]:
    async def one(query: str) -> Sequence[Document]:
        return await searcher.search(RequestContext.starting_now("r", 20.0), query, limit=1)

    async def all_at_once() -> list[Any]:
        return await asyncio.gather(*map(one, queries), return_exceptions=True)

    return asyncio.run(all_at_once())


def the_actor() -> Any:
    return ray.get_actor(f"search-budget-{HOST}", namespace="crag-serve")


def test_two_replicas_send_each_query_once_and_keep_one_limit(
    searcher: SearcherClient, wiki: CountingWiki
) -> None:
    queries = [f"query {number % 30}" for number in range(60)]
    found = search(searcher, queries)
    assert [documents[0].title for documents in found] == queries
    assert sorted(wiki.queries) == sorted(set(queries))
    assert wiki.most_in_flight == MAX_IN_FLIGHT
    assert len(wiki.processes - {None}) == 2, "both replicas have asked"


def test_a_cancelled_caller_leaves_his_place_in_the_line(
    searcher: SearcherClient, wiki: CountingWiki
) -> None:
    async def main() -> None:
        budget = SearchBudgetClient(SearchBudgetActor, settings_for(wiki))
        leases = [await budget.acquire(Acquire(None, 5.0)) for _ in range(MAX_IN_FLIGHT)]
        assert all(isinstance(lease, Lease) for lease in leases)
        waiting = asyncio.create_task(budget.acquire(Acquire(None, 15.0)))
        await asyncio.sleep(1.5)  # long enough for it to have asked whether the actor lives
        waiting.cancel()
        await asyncio.wait({waiting})
        next_one = asyncio.create_task(budget.acquire(Acquire(None, 15.0)))
        await asyncio.sleep(0.5)
        assert isinstance(leases[0], Lease) and isinstance(leases[1], Lease)
        await budget.report(Report(leases[0].flight, Outcome.OK))
        lease = await asyncio.wait_for(next_one, 3.0)
        assert isinstance(lease, Lease)
        for flight in (lease.flight, leases[1].flight):
            await budget.report(Report(flight, Outcome.OK))

    asyncio.run(main())


def test_a_lost_budget_leaves_replicas_a_share_and_comes_back(
    searcher: SearcherClient, wiki: CountingWiki
) -> None:
    wiki.queries.clear()
    old = the_actor()
    ray.kill(old)  # for good: a new one has to be started
    assert search(searcher, ["after the loss"])[0][0].title == "after the loss"
    deadline = time.monotonic() + 30
    while True:  # until the replicas share again: what one has asked the other knows
        name = f"probe {len(wiki.queries)}"
        search(searcher, [name] * 8)
        time.sleep(0.2)
        search(searcher, [name] * 8)
        if wiki.queries.count(name) == 1:
            break
        assert time.monotonic() < deadline, "the budget did not come back"
        time.sleep(1)
    assert the_actor() != old


def test_a_pause_that_one_replica_meets_is_kept_by_both(
    searcher: SearcherClient, wiki: CountingWiki
) -> None:
    wiki.queries.clear()
    wiki.retry_after_s = 60
    failures = search(searcher, [f"paused {number}" for number in range(20)])
    assert all(isinstance(failure, SearchThrottled) for failure in failures), failures
    assert len(wiki.queries) <= MAX_IN_FLIGHT


def test_the_budget_shows_itself_on_the_metrics_page(searcher: SearcherClient) -> None:
    wanted = {
        'ray_crag_search_requests_total{.*outcome="ok"',
        'ray_crag_search_cache_total{.*use="joined"',
        "ray_crag_search_budget_left",
        'ray_crag_search_circuit{.*state="closed"',
        'ray_crag_search_refused_total{.*reason="throttled"',
    }
    deadline = time.monotonic() + 60
    while missing := {name for name in wanted if not re.search(name, asyncio.run(gather_metrics()))}:
        assert time.monotonic() < deadline, missing
        time.sleep(1)
