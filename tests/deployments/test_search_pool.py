"""The search pool as its callers meet it: several transports, one budget, simulated time."""

import asyncio
import json
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from dataclasses import dataclass, field
from typing import Any

import pytest

from benchmarks.faulted_hour import SERVER_LIMIT_PER_MINUTE, Tally, faulted_hour
from benchmarks.simulated_time import run_simulated
from crag_core.context import Lane
from crag_core.errors import (
    SearchBudgetSpent,
    SearchCircuitOpen,
    SearchFailed,
    SearchThrottled,
    SearchTimedOut,
)
from deployments.backends.wikipedia.budget import (
    Acquire,
    Entry,
    Landed,
    Lease,
    Outcome,
    Report,
)
from deployments.backends.wikipedia.mediawiki_api import QueryAnswer
from deployments.backends.wikipedia.pool_observer import CacheUse
from deployments.backends.wikipedia.session import AttemptFailed
from deployments.backends.wikipedia.shared_pool import SharedPool
from deployments.backends.wikipedia.transport import PooledTransport
from deployments.settings import MediaWikiSettings, SearchBudgetSettings, SearchCacheSettings

DOWN = AttemptFailed(Outcome.UNAVAILABLE, "wiki.example answered HTTP 503")
EMPTY = json.dumps({"batchcomplete": True}).encode()


def found(query: str) -> bytes:
    return json.dumps({"query": {"pages": [{"pageid": 1, "title": query}]}}).encode()


@dataclass
class FakeWiki:
    """Answers after `seconds`, with a page of the query's name or as told for the request's number."""

    seconds: float = 0.2
    told: Callable[[int], bytes | AttemptFailed | None] = lambda number: None
    sent: list[Mapping[str, str]] = field(default_factory=list)
    sent_at_s: list[float] = field(default_factory=list)
    cancelled: int = 0

    async def send(self, parameters: Mapping[str, str]) -> tuple[bytes, QueryAnswer]:
        self.sent.append(parameters)
        self.sent_at_s.append(asyncio.get_running_loop().time())
        told = self.told(len(self.sent))
        try:
            await asyncio.sleep(self.seconds)
        except asyncio.CancelledError:
            self.cancelled += 1
            raise
        if isinstance(told, AttemptFailed):
            raise told
        body = told or found(parameters["gsrsearch"])
        return body, QueryAnswer.model_validate_json(body)

    async def close(self) -> None:
        pass


@dataclass
class Cluster:
    """Replicas of a searcher around one pool."""

    wiki: FakeWiki
    replicas: int = 2
    budget: SearchBudgetSettings = field(
        default_factory=lambda: SearchBudgetSettings(requests_per_minute=60_000, burst=100)
    )
    cache: SearchCacheSettings = field(default_factory=SearchCacheSettings)
    tally: Tally = field(default_factory=Tally)

    def __post_init__(self) -> None:
        settings = MediaWikiSettings(
            api_url="http://wiki.example/w/api.php", budget=self.budget, cache=self.cache
        )
        loop = asyncio.get_running_loop()
        self.pool = SharedPool(settings, self.tally, loop.time)
        self.transports = [PooledTransport(settings, self.wiki, self.pool) for _ in range(self.replicas)]

    async def ask(
        self, query: str, replica: int = 0, timeout_s: float = 5.0, lane: Lane = Lane.INTERACTIVE
    ) -> str:
        parameters = {"gsrsearch": query}
        answer = await self.transports[replica].query(parameters, timeout_s=timeout_s, lane=lane)
        return answer.query.pages[0].title if answer.query.pages else ""


def simulated(test: Callable[[], Coroutine[Any, Any, None]]) -> Callable[[], None]:
    def run() -> None:
        run_simulated(test())

    run.__name__ = test.__name__
    return run


async def raised(work: Awaitable[object]) -> SearchFailed:
    with pytest.raises(SearchFailed) as failure:
        await work
    return failure.value


@simulated
async def test_200_questions_at_once_half_of_them_repeats_send_no_duplicate() -> None:
    cluster = Cluster(FakeWiki(seconds=0.05), replicas=4)
    asked = [f"query {number % 100}" for number in range(200)]
    answers = await asyncio.gather(
        *(cluster.ask(query, number % 4) for number, query in enumerate(asked))
    )
    assert answers == asked
    assert len(cluster.wiki.sent) == 100
    assert cluster.tally.cache[CacheUse.JOINED] + cluster.tally.cache[CacheUse.HIT] == 100


@simulated
async def test_a_cancelled_caller_leaves_the_request_to_the_others() -> None:
    cluster = Cluster(FakeWiki(seconds=1.0))
    first, second, third = (asyncio.create_task(cluster.ask("q", replica)) for replica in (0, 0, 1))
    await asyncio.sleep(0.5)
    first.cancel()
    assert [await second, await third] == ["q", "q"]
    assert (len(cluster.wiki.sent), cluster.wiki.cancelled) == (1, 0)


@simulated
async def test_the_last_caller_to_leave_ends_the_request_and_frees_its_slot() -> None:
    budget = SearchBudgetSettings(requests_per_minute=60_000, max_in_flight=1)
    cluster = Cluster(FakeWiki(seconds=1.0), budget=budget)
    callers = [asyncio.create_task(cluster.ask("q")) for _ in range(3)]
    await asyncio.sleep(0.5)
    for caller in callers:
        caller.cancel()
    await asyncio.wait(callers)
    assert await cluster.ask("q", 1) == "q"
    assert cluster.wiki.cancelled == 1
    assert asyncio.get_running_loop().time() < 2.0


@simulated
async def test_one_who_comes_when_the_last_has_left_is_not_cancelled_with_him() -> None:
    for ticks in range(6):
        cluster = Cluster(FakeWiki(seconds=1.0))
        first = asyncio.create_task(cluster.ask("q"))
        await asyncio.sleep(0.5)
        first.cancel()
        for _ in range(ticks):
            await asyncio.sleep(0)
        assert await cluster.ask("q") == "q"


@simulated
async def test_a_caller_with_more_time_gives_it_to_the_request_he_joins() -> None:
    cluster = Cluster(FakeWiki(seconds=2.0))
    hasty = asyncio.create_task(cluster.ask("q", timeout_s=1.0))
    await asyncio.sleep(0.1)
    patient = asyncio.create_task(cluster.ask("q", timeout_s=5.0))
    assert isinstance(await raised(hasty), SearchTimedOut)
    assert await patient == "q"
    assert len(cluster.wiki.sent) == 1


@simulated
async def test_a_caller_with_more_time_waits_on_for_the_budget() -> None:
    budget = SearchBudgetSettings(requests_per_minute=60_000, max_in_flight=1)
    cluster = Cluster(FakeWiki(seconds=2.0), budget=budget)
    other = asyncio.create_task(cluster.ask("other"))
    await asyncio.sleep(0.1)
    hasty = asyncio.create_task(cluster.ask("q", timeout_s=1.0))
    await asyncio.sleep(0.1)
    patient = asyncio.create_task(cluster.ask("q", timeout_s=5.0))
    assert isinstance(await raised(hasty), SearchTimedOut)
    assert [await other, await patient] == ["other", "q"]


@simulated
async def test_a_replica_that_dies_holds_up_neither_its_slot_nor_its_query() -> None:
    budget = SearchBudgetSettings(requests_per_minute=60_000, max_in_flight=1, lease_s=7)
    cluster = Cluster(FakeWiki(), budget=budget)
    key = b"of a query"
    lease = await cluster.pool.acquire(Acquire(key, 1.0))
    assert isinstance(lease, Lease)
    next_one = await cluster.pool.acquire(Acquire(key, 60.0))
    assert isinstance(next_one, Lease) and next_one != lease
    assert asyncio.get_running_loop().time() == pytest.approx(7.0, abs=0.1)


@simulated
async def test_what_dead_replicas_leave_behind_is_cleared_away() -> None:
    pool = Cluster(FakeWiki(), budget=SearchBudgetSettings(requests_per_minute=60_000)).pool
    dead = []
    for number in range(3):  # each dies while it waits to try again
        lease = await pool.acquire(Acquire(bytes([number]), 1.0))
        assert isinstance(lease, Lease)
        await pool.report(Report(lease.flight, Outcome.UNAVAILABLE, retry_in_s=0.1))
        dead.append(lease.flight)
    assert [pool.knows(flight) for flight in dead] == [True] * 3
    await asyncio.sleep(20)
    assert isinstance(await pool.acquire(Acquire(b"next", 1.0)), Lease)
    assert [pool.knows(flight) for flight in dead] == [False] * 3


@simulated
async def test_more_replicas_send_no_more() -> None:
    most = []
    for replicas in (1, 8):
        wiki = FakeWiki()
        cluster = Cluster(wiki, replicas, budget=SearchBudgetSettings(requests_per_minute=60))
        asks = [cluster.ask(f"{number}", number % replicas) for number in range(600)]
        await asyncio.gather(*asks, return_exceptions=True)
        most.append(len(wiki.sent))
    assert most[0] == most[1] < 10


@simulated
async def test_a_pause_holds_for_every_replica() -> None:
    told = {1: AttemptFailed(Outcome.THROTTLED, "HTTP 429", 30.0)}
    cluster = Cluster(FakeWiki(told=told.get))
    assert isinstance(await raised(cluster.ask("first")), SearchThrottled)
    assert isinstance(await raised(cluster.ask("second", 1)), SearchThrottled)
    assert len(cluster.wiki.sent) == 1
    await asyncio.sleep(30)
    assert await cluster.ask("second", 1) == "second"


@simulated
async def test_those_who_wait_are_told_of_a_long_pause_at_once() -> None:
    told = {1: AttemptFailed(Outcome.THROTTLED, "HTTP 429", 30.0)}
    budget = SearchBudgetSettings(requests_per_minute=60_000, max_in_flight=1)
    cluster = Cluster(FakeWiki(told=told.get), budget=budget)
    errors = await asyncio.gather(*(raised(cluster.ask(f"{n}", n % 2)) for n in range(4)))
    assert {type(error) for error in errors} == {SearchThrottled}
    assert asyncio.get_running_loop().time() < 0.3


@simulated
async def test_a_caller_who_leaves_with_a_lease_on_its_way_gives_it_back() -> None:
    budget = SearchBudgetSettings(requests_per_minute=60_000, max_in_flight=1)
    pool = Cluster(FakeWiki(), budget=budget).pool
    first = await pool.acquire(Acquire(b"first", 5.0))
    assert isinstance(first, Lease)
    second = asyncio.create_task(pool.acquire(Acquire(b"second", 5.0)))
    await asyncio.sleep(0.1)
    await pool.land(Landed(first.flight, [Entry(b"first", b"{}")]))
    second.cancel()  # its turn has come, and it has not seen it yet
    await asyncio.wait({second})
    assert second.cancelled()
    assert isinstance(await pool.acquire(Acquire(b"third", 1.0)), Lease)


@simulated
async def test_a_person_does_not_wait_for_a_jobs_request_but_a_job_for_a_persons() -> None:
    lagging = AttemptFailed(Outcome.LAGGING, "API error maxlag", 5.0)
    cluster = Cluster(FakeWiki(told={1: lagging}.get))
    job = asyncio.create_task(cluster.ask("q", lane=Lane.BATCH, timeout_s=6.0))
    await asyncio.sleep(0.5)
    assert await cluster.ask("q", 1) == "q"
    assert asyncio.get_running_loop().time() < 1.0
    assert await job == "q"
    assert len(cluster.wiki.sent) == 2, "the job finds what was asked while it waited"
    person = asyncio.create_task(cluster.ask("r"))
    await asyncio.sleep(0.1)
    assert [await cluster.ask("r", 1, lane=Lane.BATCH), await person] == ["r", "r"]
    assert len(cluster.wiki.sent) == 3


@simulated
async def test_a_job_that_the_wiki_puts_off_holds_up_nobody_else() -> None:
    lagging = AttemptFailed(Outcome.LAGGING, "API error maxlag", 5.0)
    cluster = Cluster(FakeWiki(told={1: lagging}.get))
    job = asyncio.create_task(raised(cluster.ask("job", lane=Lane.BATCH)))
    await asyncio.sleep(0.5)
    assert await cluster.ask("question", 1) == "question"
    assert asyncio.get_running_loop().time() < 1.0
    assert isinstance(await job, SearchThrottled)


@simulated
async def test_a_short_pause_is_waited_for_and_the_request_repeated() -> None:
    told = {1: AttemptFailed(Outcome.THROTTLED, "HTTP 429", 2.0)}
    cluster = Cluster(FakeWiki(told=told.get))
    assert await cluster.ask("q") == "q"
    first_s, second_s = cluster.wiki.sent_at_s
    assert second_s - first_s >= 2.2


@simulated
async def test_an_outage_opens_the_circuit_for_all_and_one_probe_closes_it() -> None:
    wiki = FakeWiki(told=lambda number: DOWN if number <= 5 else None)
    cluster = Cluster(wiki, budget=SearchBudgetSettings(requests_per_minute=60_000, retry_share=0))
    errors = [await raised(cluster.ask(f"{number}", number % 2)) for number in range(4)]
    assert [type(error) for error in errors] == [SearchFailed] * 2 + [SearchCircuitOpen] * 2
    assert len(wiki.sent) == 5
    await asyncio.sleep(5)
    assert await cluster.ask("probe") == "probe"
    assert await cluster.ask("next", 1) == "next"


@simulated
async def test_a_wrong_query_is_asked_once_and_closes_no_circuit() -> None:
    wrong = AttemptFailed(Outcome.REFUSED, "wiki.example answered with the API error missingparam")
    cluster = Cluster(FakeWiki(told=lambda number: wrong))
    for number in range(8):
        error = await raised(cluster.ask(f"{number}"))
        assert (type(error), error.message) == (SearchFailed, wrong.message)
    assert len(cluster.wiki.sent) == 8


@simulated
async def test_callers_in_a_hurry_open_no_circuit() -> None:
    cluster = Cluster(FakeWiki(seconds=1.0))
    for number in range(30):
        error = await raised(cluster.ask(f"{number}", timeout_s=0.3))
        assert isinstance(error, SearchTimedOut | SearchBudgetSpent)
    assert await cluster.ask("q") == "q"


@simulated
async def test_an_old_answer_stands_in_for_a_wiki_that_fails_but_never_an_empty_one() -> None:
    wiki = FakeWiki(told=lambda number: DOWN if number > 2 else EMPTY if number == 2 else None)
    cluster = Cluster(wiki, cache=SearchCacheSettings(ttl_s=60, negative_ttl_s=60))
    assert [await cluster.ask("page"), await cluster.ask("nothing")] == ["page", ""]
    await asyncio.sleep(100)
    parameters = {"gsrsearch": "page"}
    old = await cluster.transports[1].query(parameters, timeout_s=5.0)
    (page,) = old.query.pages
    assert (page.title, page.document("wiki.example").is_stale) == ("page", True)
    assert isinstance(await raised(cluster.ask("nothing", 1)), SearchFailed)
    assert cluster.tally.cache[CacheUse.STALE] == 1


@simulated
async def test_an_answer_is_known_to_every_replica_until_it_is_old() -> None:
    wiki = FakeWiki(told=lambda number: EMPTY if number == 2 else None)
    cluster = Cluster(wiki, cache=SearchCacheSettings(ttl_s=60, negative_ttl_s=10))
    for _ in range(2):
        assert [await cluster.ask("Page", 0), await cluster.ask("page ", 1)] == ["Page", "Page"]
        assert await cluster.ask("nothing", 0) == ""
    assert len(wiki.sent) == 2
    await asyncio.sleep(30)
    assert [await cluster.ask("page"), await cluster.ask("nothing")] == ["Page", "nothing"]
    assert len(wiki.sent) == 3
    assert cluster.tally.cache[CacheUse.NEGATIVE] == 1


@simulated
async def test_a_failure_is_not_remembered_and_those_who_joined_share_it() -> None:
    wiki = FakeWiki(told=lambda number: DOWN if number <= 3 else None)
    cluster = Cluster(wiki)
    errors = await asyncio.gather(*(raised(cluster.ask("q", replica)) for replica in (0, 1, 1)))
    assert {error.message for error in errors} == {DOWN.message}
    assert len(wiki.sent) == 3
    assert await cluster.ask("q") == "q"


@simulated
async def test_the_batch_lane_waits_behind_interactive_callers_and_yields_to_lag() -> None:
    budget = SearchBudgetSettings(requests_per_minute=60, burst=1, max_in_flight=3)
    cluster = Cluster(FakeWiki(), budget=budget)
    await asyncio.gather(
        cluster.ask("job", lane=Lane.BATCH),
        cluster.ask("first", timeout_s=6),
        cluster.ask("second", 1, timeout_s=6),
    )
    sent = [(parameters["gsrsearch"], "maxlag" in parameters) for parameters in cluster.wiki.sent]
    assert sent == [("first", False), ("second", False), ("job", True)]


@simulated
async def test_a_query_that_cannot_be_in_time_fails_at_once() -> None:
    cluster = Cluster(FakeWiki(), budget=SearchBudgetSettings(requests_per_minute=12, burst=1))
    assert isinstance(await raised(cluster.ask("q", timeout_s=5.0)), SearchBudgetSpent)
    assert isinstance(await raised(cluster.ask("q", timeout_s=0.0)), SearchTimedOut)
    assert asyncio.get_running_loop().time() == 0.0
    assert cluster.wiki.sent == []


def test_an_hour_of_faults_keeps_the_budget_and_tells_every_caller() -> None:
    hour = faulted_hour(replicas=3, questions_per_s=4.0)
    assert hour.most_in_a_minute <= 180 < SERVER_LIMIT_PER_MINUTE
    assert (hour.over_limit, hour.sent_in_a_pause, hour.most_in_flight) == (0, 0, 3)
    assert hour.killed > 0
    assert (hour.unanswered, hour.wrong, hour.late) == (0, 0, 0)
    assert hour.answered > 0.95 * hour.asked
    assert hour.tally.retries[True] <= 3 + 0.15 * hour.sent
    assert set(hour.errors) <= {
        "search_failed", "search_throttled", "search_circuit_open", "search_budget_spent",
        "search_timed_out",
    }  # fmt: skip
