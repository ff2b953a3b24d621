"""Two searcher replicas and the one budget that they share, on a real Ray cluster.

Each is an application of its own, so that a test can say which one it asks.
"""

import asyncio
import re
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import Any

import pytest
import ray
from aiohttp import web
from ray import serve

from crag_core.context import RequestContext
from crag_core.errors import SearchThrottled
from crag_core.types import Document, DocumentSource
from deployments.backends.wikipedia.budget import (
    Acquire,
    Landed,
    Lease,
)
from deployments.clients import SearcherClient
from deployments.observability.gather import gather_metrics
from deployments.search_budget import SearchBudgetActor
from deployments.searcher import Searcher
from deployments.settings import MediaWikiSettings, SearchBudgetSettings, SearcherSettings
from deployments.shared_actors import SearchBudgetClient
from tests.serve.conftest import free_port

pytestmark = pytest.mark.serve

MAX_IN_FLIGHT = 2
HOST = "127.0.0.1"


@dataclass
class CountingWiki:
    """A wiki on loopback, in a thread of its own, that counts who asks it what."""

    port: int = field(default_factory=free_port)
    queries: list[str] = field(default_factory=list)
    in_flight: int = 0
    most_in_flight: int = 0
    retry_after_s: int = 0

    async def answer(self, request: web.Request) -> web.Response:
        self.queries.append(request.query["pageids"])
        if self.retry_after_s:
            return web.Response(status=429, headers={"Retry-After": str(self.retry_after_s)})
        self.in_flight += 1
        self.most_in_flight = max(self.most_in_flight, self.in_flight)
        await asyncio.sleep(0.05)
        self.in_flight -= 1
        number = request.query["pageids"]
        page = {"pageid": int(number), "title": number, "extract": "Some text of the page."}
        return web.json_response({"query": {"pages": [page]}})

    def run(self) -> None:
        app = web.Application()
        app.router.add_get("/w/api.php", self.answer)
        web.run_app(app, host=HOST, port=self.port, handle_signals=False, print=lambda *_: None)


@pytest.fixture(scope="module")
def wiki() -> CountingWiki:
    wiki = CountingWiki()
    threading.Thread(target=wiki.run, daemon=True).start()
    return wiki


def settings_for(wiki: CountingWiki) -> MediaWikiSettings:
    return MediaWikiSettings(
        api_url=f"http://{HOST}:{wiki.port}/w/api.php",
        budget=SearchBudgetSettings(
            requests_per_minute=6_000,
            burst=20,
            max_in_flight=MAX_IN_FLIGHT,
            share_when_lost=0.5,
            lease_s=20,
        ),
    )


Replicas = Sequence[SearcherClient]


@pytest.fixture(scope="module")
def replicas(wiki: CountingWiki) -> Iterator[Replicas]:
    settings = settings_for(wiki)
    ray.init(
        address="local", namespace="serve", num_cpus=2, include_dashboard=False, log_to_driver=False
    )
    try:
        deployment: Any = serve.deployment(
            max_ongoing_requests=100, ray_actor_options={"num_cpus": 0.1}
        )(Searcher)
        handles = [
            serve.run(
                deployment.bind(
                    SearcherSettings(mediawiki=settings),
                    SearchBudgetClient(SearchBudgetActor, settings),
                ),
                name=name,
                route_prefix=None,
            )
            for name in ("first", "second")
        ]
        yield [SearcherClient(handle, DocumentSource.WIKIPEDIA) for handle in handles]
    finally:
        serve.shutdown()
        ray.shutdown()


def read(replicas: Replicas, pages: Sequence[str]) -> list[Any]:
    """What came of reading these pages, by number: asked at once, of the replicas in turn."""

    async def one(number: int, page: str) -> Sequence[Document]:
        ctx = RequestContext.starting_now("r", 30.0)
        document = Document(id=f"wikipedia:{page}", text="")
        return await replicas[number % len(replicas)].read(ctx, document)

    async def all_at_once() -> list[Any]:
        return await asyncio.gather(*map(one, count(), pages), return_exceptions=True)

    return asyncio.run(all_at_once())


def until_shared(replicas: Replicas, wiki: CountingWiki) -> None:
    """Return once the replicas share a budget: what one has asked, the other knows."""
    deadline = time.monotonic() + 120
    for number in count():
        page = f"{1 + number}{time.monotonic_ns()}"
        for replica in replicas:
            read([replica], [page])
        if wiki.queries.count(page) == 1:
            return
        assert time.monotonic() < deadline, "the replicas do not share a budget"
        time.sleep(1)


def the_actor() -> Any:
    return ray.get_actor(f"search-budget-{HOST}", namespace="crag-serve")


def test_two_replicas_send_each_query_once_and_keep_one_limit(
    replicas: Replicas, wiki: CountingWiki
) -> None:
    until_shared(replicas, wiki)
    wiki.queries.clear()
    pages = [str(1 + number % 31) for number in range(62)]  # each one asked for by both replicas
    found = read(replicas, pages)
    assert [documents[0].title for documents in found] == pages
    assert sorted(wiki.queries) == sorted(set(pages))
    assert wiki.most_in_flight == MAX_IN_FLIGHT


def test_a_cancelled_caller_leaves_his_place_in_the_line(replicas: Replicas, wiki: CountingWiki) -> None:
    async def main() -> None:
        budget = SearchBudgetClient(SearchBudgetActor, settings_for(wiki))
        await budget.recall_stale([])
        leases = [await budget.acquire(Acquire(None, 5.0)) for _ in range(MAX_IN_FLIGHT)]
        assert all(isinstance(lease, Lease) for lease in leases)
        waiting = asyncio.create_task(budget.acquire(Acquire(None, 15.0)))
        await asyncio.sleep(3.0)  # long enough for it to have asked whether the actor lives
        waiting.cancel()
        await asyncio.wait({waiting})
        next_one = asyncio.create_task(budget.acquire(Acquire(None, 15.0)))
        await asyncio.sleep(0.5)
        assert isinstance(leases[0], Lease) and isinstance(leases[1], Lease)
        freed_s = time.monotonic()
        await budget.land(Landed(leases[0].flight))
        lease = await next_one
        assert time.monotonic() - freed_s < settings_for(wiki).budget.lease_s / 2
        assert isinstance(lease, Lease)
        for flight in (lease.flight, leases[1].flight):
            await budget.land(Landed(flight))

    asyncio.run(main())


def test_a_lost_budget_leaves_replicas_a_share_and_comes_back(
    replicas: Replicas, wiki: CountingWiki
) -> None:
    wiki.queries.clear()
    old = the_actor()
    ray.kill(old)  # for good: a new one has to be started
    assert read(replicas, ["1900"])[0][0].title == "1900"
    until_shared(replicas, wiki)
    assert the_actor() != old


def test_a_pause_that_one_replica_meets_is_kept_by_both(replicas: Replicas, wiki: CountingWiki) -> None:
    wiki.queries.clear()
    wiki.retry_after_s = 60
    failures = read(replicas, [str(2_000 + number) for number in range(20)])
    assert all(isinstance(failure, SearchThrottled) for failure in failures), failures
    assert len(wiki.queries) <= MAX_IN_FLIGHT


def test_the_budget_shows_itself_on_the_metrics_page(replicas: Replicas) -> None:
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
