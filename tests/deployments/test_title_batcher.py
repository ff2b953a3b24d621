"""Look-ups of titles, gathered into few requests."""

import asyncio
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import pytest
from pydantic import ValidationError

from benchmarks.simulated_time import run_simulated
from crag_core.errors import SearchFailed, SearchTimedOut
from deployments.backends.wikipedia.budget import Landed, Outcome
from deployments.backends.wikipedia.mediawiki_api import QueryAnswer
from deployments.backends.wikipedia.session import AttemptFailed
from deployments.backends.wikipedia.shared_pool import SharedPool
from deployments.backends.wikipedia.title_batcher import TitleBatcher, part_of
from deployments.backends.wikipedia.transport import PooledTransport
from deployments.settings import MediaWikiSettings, SearchBudgetSettings, SearchCacheSettings

REDIRECTS = {"BSOD": "Blue screen of death", "Loop A": "Loop B", "Loop B": "Loop A"}
MISSING = {"No such page"}


@dataclass
class FakeWiki:
    """Answers about titles as a wiki does: redirects link by link, pages without repeats."""

    error: AttemptFailed | None = None
    answer: Mapping[str, Any] | None = None
    seconds: float = 0.1
    sent: list[list[str]] = field(default_factory=list)
    ended: int = 0

    async def send(self, parameters: Mapping[str, str]) -> tuple[bytes, QueryAnswer]:
        titles = parameters["titles"].split("|")
        self.sent.append(titles)
        await asyncio.sleep(self.seconds)
        self.ended += 1
        if self.error:
            raise self.error
        body = json.dumps(self.answer or self._about(titles)).encode()
        return body, QueryAnswer.model_validate_json(body)

    async def close(self) -> None:
        pass

    def _about(self, titles: list[str]) -> Mapping[str, Any]:
        normalized = [{"from": t, "to": t[0].upper() + t[1:]} for t in titles if t[0].islower()]
        names = {t[0].upper() + t[1:] for t in titles}
        redirects = [{"from": name, "to": to} for name, to in REDIRECTS.items() if names & {name, to}]
        pages = [
            {"title": name, "missing": True} if name in MISSING else {"title": name, "pageid": 7}
            for name in sorted({REDIRECTS.get(name, name) for name in names} - {"Loop A", "Loop B"})
        ]
        return {"query": {"normalized": normalized, "redirects": redirects, "pages": pages}}


class SlowToTell(SharedPool):
    """A budget that is just being found again when it should be told."""

    async def land(self, landed: Landed) -> None:
        await asyncio.sleep(1.0)
        await super().land(landed)


def batcher(wiki: FakeWiki, cache: SearchCacheSettings | None = None) -> TitleBatcher:
    budget = SearchBudgetSettings(requests_per_minute=60_000)
    settings = MediaWikiSettings(
        api_url="http://wiki.example/w/api.php",
        budget=budget,
        cache=cache or SearchCacheSettings(),
    )
    pool = SharedPool(settings, clock=asyncio.get_running_loop().time)
    transport = PooledTransport(settings, wiki, pool)
    return TitleBatcher(settings, transport, pool, {"action": "query", "redirects": "1"})


async def found(batcher: TitleBatcher, title: str, timeout_s: float = 5.0) -> list[str]:
    answer = await batcher.look_up(title, timeout_s=timeout_s)
    return [page.title for page in answer.query.pages if page.pageid]


async def is_stale(batcher: TitleBatcher, title: str) -> list[bool]:
    """Of each page found for a title, whether its text is an older copy."""
    answer = await batcher.look_up(title, timeout_s=5.0)
    return [page.document("wiki.example").is_stale for page in answer.query.pages if page.pageid]


def test_48_look_ups_are_three_requests_and_each_gets_its_page() -> None:
    async def main() -> None:
        wiki = FakeWiki()
        looking_up = batcher(wiki)
        titles = [f"Title {number}" for number in range(48)]
        pages = await asyncio.gather(*(found(looking_up, title) for title in [*titles, *titles]))
        assert pages == [[title] for title in [*titles, *titles]]
        assert [len(sent) for sent in wiki.sent] == [20, 20, 8]
        assert await found(looking_up, "Title 3") == ["Title 3"]
        assert len(wiki.sent) == 3, "what was asked is remembered, title by title"

    run_simulated(main())


@pytest.mark.parametrize(
    ("title", "pages"),
    [
        ("bSOD", ["Blue screen of death"]),
        ("BSOD", ["Blue screen of death"]),
        ("Loop A", []),
        ("No such page", []),
        (" Beyonce\u0301__song ", ["Beyoncé song"]),
    ],
)
def test_a_title_leads_to_its_page_or_to_none(title: str, pages: list[str]) -> None:
    async def main() -> None:
        looking_up = batcher(FakeWiki())
        others = [found(looking_up, f"Other {number}") for number in range(3)]
        assert (await asyncio.gather(found(looking_up, title), *others))[0] == pages

    run_simulated(main())


def test_a_title_that_is_being_looked_up_is_not_asked_for_again() -> None:
    async def main() -> None:
        wiki = FakeWiki()
        looking_up = batcher(wiki)
        both = asyncio.gather(found(looking_up, "A"), found(looking_up, "B"))
        await asyncio.sleep(0.05)
        assert await found(looking_up, "A") == ["A"]
        assert await both == [["A"], ["B"]]
        assert wiki.sent == [["A", "B"]]

    run_simulated(main())


@pytest.mark.parametrize("title", ["", "Foo[bar]", "a|b", "C#", "Titanic%20film", "x" * 256, "\ud800"])
def test_what_can_be_no_title_costs_no_request(title: str) -> None:
    async def main() -> None:
        wiki = FakeWiki()
        assert await found(batcher(wiki), title) == []
        assert wiki.sent == []

    run_simulated(main())


def test_a_failed_request_fails_those_who_waited_for_it_and_is_not_remembered() -> None:
    async def main() -> None:
        wiki = FakeWiki(error=AttemptFailed(Outcome.REFUSED, "no"))
        looking_up = batcher(wiki)
        asked = [looking_up.look_up(title, timeout_s=5) for title in ("A", "B")]
        failures = await asyncio.gather(*asked, return_exceptions=True)
        assert [type(failure) for failure in failures] == [SearchFailed] * 2
        wiki.error = None
        assert await found(looking_up, "A") == ["A"]

    run_simulated(main())


def test_an_older_answer_stands_in_for_a_wiki_that_fails_title_by_title() -> None:
    async def main() -> None:
        wiki = FakeWiki()
        looking_up = batcher(wiki, cache=SearchCacheSettings(ttl_s=60, negative_ttl_s=60))
        assert await is_stale(looking_up, "A") == [False]
        assert await is_stale(looking_up, "No such page") == []
        await asyncio.sleep(100)
        wiki.error = AttemptFailed(Outcome.UNAVAILABLE, "down")
        asked = [is_stale(looking_up, title) for title in ("A", "B", "No such page")]
        old, new, missing = await asyncio.gather(*asked, return_exceptions=True)
        assert old == [True]
        assert isinstance(new, SearchFailed)
        assert isinstance(missing, SearchFailed), "an outage must not look like nothing found"
        wiki.error = None
        assert await is_stale(looking_up, "A") == [False], "what is old is not remembered as new"

    run_simulated(main())


def test_a_caller_in_a_hurry_leaves_and_the_others_are_served() -> None:
    async def main() -> None:
        looking_up = batcher(FakeWiki(seconds=1.0))
        hasty = asyncio.create_task(found(looking_up, "A", timeout_s=0.5))
        patient = asyncio.create_task(found(looking_up, "A", timeout_s=5.0))
        with pytest.raises(SearchTimedOut):
            await hasty
        assert await patient == ["A"]

    run_simulated(main())


def test_a_part_holds_the_way_to_its_page_and_no_other() -> None:
    answer = {
        "query": {
            "normalized": [{"from": "a", "to": "A"}, {"from": "x", "to": "X"}],
            "redirects": [{"from": "B", "to": "C"}, {"from": "A", "to": "B"}],
            "pages": [{"title": "C", "pageid": 3}, {"title": "X", "pageid": 4}],
        }
    }
    assert part_of(answer, "a")["query"] == {
        "normalized": [{"from": "a", "to": "A"}],
        "redirects": [{"from": "A", "to": "B"}, {"from": "B", "to": "C"}],
        "pages": [{"title": "C", "pageid": 3}],
    }
    assert part_of({}, "a")["query"] == {"normalized": [], "redirects": [], "pages": []}


def test_what_nobody_waits_for_any_more_is_not_asked_for() -> None:
    async def main() -> None:
        wiki = FakeWiki()
        looking_up = batcher(wiki)
        leaving = asyncio.ensure_future(found(looking_up, "A"))
        await asyncio.sleep(0.001)
        leaving.cancel()
        staying = asyncio.gather(found(looking_up, "B"), found(looking_up, "A"))
        assert await staying == [["B"], ["A"]]
        assert wiki.sent == [["B", "A"]]
        alone = asyncio.ensure_future(found(looking_up, "C"))
        await asyncio.sleep(0.001)
        alone.cancel()
        await asyncio.sleep(60)
        assert len(wiki.sent) == 1

    run_simulated(main())


def test_a_request_ends_with_the_last_of_its_callers_and_its_titles_can_be_asked_for_again() -> None:
    async def main() -> None:
        wiki = FakeWiki(seconds=3.0)
        looking_up = batcher(wiki)
        both = [asyncio.ensure_future(found(looking_up, title)) for title in ("A", "B")]
        await asyncio.sleep(1.0)
        both[0].cancel()
        assert await both[1] == ["B"], "somebody else still waited for the request"
        alone = asyncio.ensure_future(found(looking_up, "C"))
        await asyncio.sleep(1.0)
        alone.cancel()
        assert await found(looking_up, "C") == ["C"]
        assert wiki.ended == 2, "the request that nobody waited for was broken off"

    run_simulated(main())


def test_a_title_asked_for_while_its_answer_is_being_told_is_answered() -> None:
    async def main() -> None:
        wiki = FakeWiki()
        settings = MediaWikiSettings(api_url="http://wiki.example/w/api.php")
        pool = SlowToTell(settings, clock=asyncio.get_running_loop().time)
        transport = PooledTransport(settings, wiki, pool)
        looking_up = TitleBatcher(settings, transport, pool, {"action": "query"})
        await asyncio.sleep(60)  # the bucket fills
        assert await found(looking_up, "A") == ["A"]
        assert await found(looking_up, "A") == ["A"]

    run_simulated(main())


def test_an_error_of_ours_reaches_the_caller_and_leaves_the_title_as_it_was() -> None:
    async def main() -> None:
        wiki = FakeWiki(answer={"query": {"pages": 7}})
        looking_up = batcher(wiki)
        with pytest.raises(ValidationError):
            await looking_up.look_up("A", timeout_s=5)
        wiki.answer = None
        assert await found(looking_up, "A") == ["A"]

    run_simulated(main())
