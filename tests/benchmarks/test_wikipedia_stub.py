"""The stand-in for Wikipedia: the searcher reads it, and it misbehaves as often as asked."""

import time
from typing import Any

import aiohttp
import pytest
from aiohttp.test_utils import TestServer

from benchmarks.load.wikipedia_stub import WikipediaStub
from crag_core.errors import SearchFailed
from crag_core.queries.plan import Sought
from crag_core.queries.planning import plan_search
from deployments.backends.wikipedia.mediawiki import MediaWiki
from deployments.backends.wikipedia.strategies import WikiStrategies
from deployments.settings import MediaWikiSettings

PLAN = plan_search(Sought("What is Henry Feilden's occupation?"))


def stub(**more: Any) -> WikipediaStub:
    calm = dict.fromkeys(("median_s", "sigma", "stall_share", "stall_s", "refusal_share"), 0.0)
    return WikipediaStub(**({"seed": 1} | calm | more))


async def test_the_searcher_finds_pages_in_it() -> None:
    async with TestServer(stub().app()) as server:
        wiki = MediaWiki(MediaWikiSettings(api_url=str(server.make_url("/w/api.php"))))
        found = await WikiStrategies(wiki).search(PLAN, limit=5, timeout_s=5)
        await wiki.close()
    documents = [page.document for page in found.pages]
    assert documents and "Henry Feilden" in documents[0].title
    assert all(document.text and document.title and document.revision for document in documents)


async def test_refusals_reach_the_searcher() -> None:
    async with TestServer(stub(refusal_share=1.0).app()) as server:
        wiki = MediaWiki(MediaWikiSettings(api_url=str(server.make_url("/w/api.php"))))
        with pytest.raises(SearchFailed, match="429"):
            await WikiStrategies(wiki).search(PLAN, limit=5, timeout_s=5)
        await wiki.close()


async def test_delays_are_spread_and_the_same_from_the_same_seed() -> None:
    async def seconds(seed: int) -> list[float]:
        app = stub(median_s=0.02, sigma=0.8, stall_share=0.1, stall_s=0.7, seed=seed).app()
        found = []
        async with TestServer(app) as server, aiohttp.ClientSession() as session:
            for _ in range(30):
                started_s = time.monotonic()
                async with session.get(server.make_url("/w/api.php")) as response:
                    await response.read()
                found.append(time.monotonic() - started_s)
        return found

    one, again = await seconds(2), await seconds(2)
    assert [second > 0.7 for second in one] == [second > 0.7 for second in again]
    assert 1 <= sum(second > 0.7 for second in one) <= 9
    assert max(one) > 3 * min(one)
