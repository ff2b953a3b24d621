"""The search pool against a real MediaWiki: what replicas share when the wiki has its faults."""

import asyncio
import json
import time
from collections.abc import AsyncIterator, Callable
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import pytest

from crag_core.context import Lane
from crag_core.errors import SearchCircuitOpen, SearchFailed, SearchThrottled
from deployments.backends.wikipedia.mediawiki import open_transport
from deployments.backends.wikipedia.parameters import search_parameters
from deployments.backends.wikipedia.shared_pool import SharedPool
from deployments.backends.wikipedia.title_batcher import TitleBatcher
from deployments.settings import MediaWikiSettings
from tests.mediawiki.conftest import SNAPSHOT
from tests.mediawiki.local_wiki import LocalWiki

pytestmark = pytest.mark.mediawiki

PAGES = [json.loads(line) for line in SNAPSHOT.read_text(encoding="utf-8").splitlines()]
TITLES = [page["title"] for page in PAGES if not page["disambiguation"]]
PATIENCE_S = 30.0  # a busy machine serves its wiki slowly
INTRODUCTIONS = {
    "action": "query",
    "format": "json",
    "formatversion": "2",
    "errorformat": "plaintext",
    "prop": "extracts|info|pageprops",
    "exintro": "1",
    "explaintext": "1",
    "exlimit": "max",
    "redirects": "1",
}


class Pool:
    """Replicas of a searcher that share a budget for the wiki."""

    def __init__(self, wiki: LocalWiki, **budget: object) -> None:
        self.settings = MediaWikiSettings.model_validate(
            {
                "api_url": wiki.api_url,
                "contact": "ops@crag-serve.example",
                "timeout_s": PATIENCE_S,
                "budget": {
                    "requests_per_minute": 60_000,
                    "burst": 1_000,
                    "lease_s": 2 * PATIENCE_S,
                    **budget,
                },
            }
        )
        self.budget = SharedPool(self.settings)
        self.transports = [open_transport(self.settings, self.budget) for _ in range(3)]

    async def search(self, query: str, replica: int = 0, timeout_s: float = PATIENCE_S) -> str:
        transport = self.transports[replica]
        answer = await transport.query(search_parameters(query, 1), timeout_s=timeout_s)
        readable = [page.title for page in answer.ranked if page.is_readable]
        return readable[0] if readable else ""


NewPool = Callable[..., Pool]


@pytest.fixture
async def new_pool(mediawiki: LocalWiki) -> AsyncIterator[NewPool]:
    pools = []

    def new(**budget: object) -> Pool:
        pools.append(Pool(mediawiki, **budget))
        return pools[-1]

    yield new
    for pool in pools:
        for transport in pool.transports:
            await transport.close()


async def test_equal_questions_of_all_replicas_are_one_request(
    mediawiki: LocalWiki, new_pool: NewPool
) -> None:
    pool = new_pool()
    asked = [TITLES[number % 25] for number in range(50)]
    found = await asyncio.gather(*(pool.search(title, n % 3) for n, title in enumerate(asked)))
    assert found[:25] == found[25:]
    assert "" not in found
    assert len(mediawiki.requests) == 25


@pytest.mark.parametrize("form", ["seconds", "date"])
async def test_a_retry_after_pauses_every_replica(
    mediawiki: LocalWiki, new_pool: NewPool, form: str
) -> None:
    pool = new_pool()
    date = format_datetime(datetime.now(UTC) + timedelta(seconds=60), usegmt=True)
    retry_after = "60" if form == "seconds" else date
    with mediawiki.fault(times=1, status=429, headers={"Retry-After": retry_after}):
        for replica in range(3):
            with pytest.raises(SearchThrottled):
                await pool.search(f"Dracula {replica}", replica)
    assert len(mediawiki.requests) == 1


async def test_an_outage_opens_the_circuit_and_one_probe_closes_it(
    mediawiki: LocalWiki, new_pool: NewPool
) -> None:
    pool = new_pool(open_s=0.5, max_open_s=0.5)
    with mediawiki.fault(status=503, headers={"Content-Type": "text/html"}, body="<p>Down</p>"):
        kinds = []
        for number in range(6):
            with pytest.raises(SearchFailed) as failure:
                await pool.search(f"Dracula {number}", number % 3)
            kinds.append(type(failure.value))
        assert kinds == [SearchFailed] * 2 + [SearchCircuitOpen] * 4
        assert len(mediawiki.requests) == 5
    await asyncio.sleep(0.5)
    assert await pool.search("Dracula") == "Dracula"
    assert await pool.search("Bram Stoker", 1) == "Bram Stoker"


async def test_a_block_is_not_tried_on(mediawiki: LocalWiki, new_pool: NewPool) -> None:
    pool = new_pool()
    with mediawiki.fault(status=403, body="Please set a user-agent"):
        for number in range(10):
            with pytest.raises(SearchFailed):
                await pool.search(f"Dracula {number}", number % 3)
    assert len(mediawiki.requests) == 5


async def test_a_stalled_answer_is_given_up_and_asked_for_again(
    mediawiki: LocalWiki, new_pool: NewPool
) -> None:
    started_s = time.monotonic()
    with mediawiki.fault(times=1, delay_ms=15_000):
        assert await new_pool().search("Dracula") == "Dracula"
    assert time.monotonic() - started_s > 4
    assert len(mediawiki.requests) == 2


async def test_a_lagging_wiki_serves_those_who_wait_and_puts_jobs_off(
    mediawiki: LocalWiki, new_pool: NewPool
) -> None:
    job, question, _ = new_pool().transports
    with mediawiki.fault(lag_s=9):
        assert (await question.query(search_parameters("Dracula", 1), timeout_s=2)).ranked
        with pytest.raises(SearchThrottled, match="API error maxlag"):
            await job.query(search_parameters("Bram Stoker", 1), timeout_s=2, lane=Lane.BATCH)


async def test_looking_up_48_titles_is_three_requests(mediawiki: LocalWiki, new_pool: NewPool) -> None:
    pool = new_pool()
    batcher = TitleBatcher(pool.settings, pool.transports[0], pool.budget, INTRODUCTIONS)
    answers = await asyncio.gather(*(batcher.look_up(t, timeout_s=PATIENCE_S) for t in TITLES[:48]))
    assert [answer.query.pages[0].title for answer in answers] == TITLES[:48]
    assert all(answer.query.pages[0].is_readable for answer in answers)
    assert len(mediawiki.requests) == 3


@pytest.mark.parametrize(
    ("title", "pages"),
    [
        ("BSOD", ["Blue screen of death"]),
        ("bSOD", ["Blue screen of death"]),
        ("dracula", ["Dracula"]),
        ("AC/DC", ["AC/DC"]),
        ("Schrödinger's cat", ["Schrödinger's cat"]),
        ("Beyonce\u0301", ["Beyoncé"]),
        ("No such page at all", []),
        ("Foo[bar]", []),
    ],
)
async def test_a_title_finds_its_page_among_others(
    new_pool: NewPool, title: str, pages: list[str]
) -> None:
    pool = new_pool()
    batcher = TitleBatcher(pool.settings, pool.transports[0], pool.budget, INTRODUCTIONS)
    others = [batcher.look_up(other, timeout_s=PATIENCE_S) for other in TITLES[:5]]
    answer, *_ = await asyncio.gather(batcher.look_up(title, timeout_s=PATIENCE_S), *others)
    assert [page.title for page in answer.query.pages if page.pageid] == pages


async def test_long_parameters_travel_in_the_body_of_a_post(
    mediawiki: LocalWiki, new_pool: NewPool
) -> None:
    titles = "|".join(["Dracula", *(f"{'東京' * 30} {number}" for number in range(19))])
    answer = (
        await new_pool().transports[0].query({**INTRODUCTIONS, "titles": titles}, timeout_s=PATIENCE_S)
    )
    assert "Dracula" in {page.title for page in answer.query.pages}
    assert [request["method"] for request in mediawiki.requests] == ["POST"]
