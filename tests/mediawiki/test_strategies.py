"""The search strategies against a real MediaWiki filled with the sample encyclopedia."""

import json

import pytest

from crag_core.protocols import SearchResult
from crag_core.queries.plan import Sought
from crag_core.queries.planning import plan_search
from crag_core.queries.reproduction import reproduction_plan
from crag_core.types import Strategy
from deployments.backends.wikipedia.sequential import SequentialStrategies
from deployments.backends.wikipedia.strategies import WikiStrategies
from tests.mediawiki.conftest import SNAPSHOT, NewClient
from tests.mediawiki.local_wiki import LocalWiki

pytestmark = pytest.mark.mediawiki

PAGES = [json.loads(line) for line in SNAPSHOT.read_text(encoding="utf-8").splitlines()]
AMBIGUOUS = {page["title"] for page in PAGES if page["disambiguation"]}


async def found(new_client: NewClient, question: str, limit: int = 5) -> SearchResult:
    strategies = WikiStrategies(new_client())
    return await strategies.search(plan_search(Sought(question)), limit=limit, timeout_s=5)


@pytest.mark.parametrize(
    ("question", "title", "requests"),
    [
        ("What is lumpability?", "Lumpability", 1),
        ("What does BSOD stand for?", "Blue screen of death", 1),
        ("Is kale a vegetable?", "Kale", 1),
        ("What is schadenfreude?", "Schadenfreude", 1),
        ("Who is J. K. Rowling?", "J. K. Rowling", 1),
        ("Where is Washington, D.C.?", "Washington, D.C.", 1),
        ("Who founded Yahoo! Inc.?", "Yahoo", 2),
        ("Who wrote It?", "It (novel)", 1),
        ("What is the religion of the author of The Satanic Verses?", "The Satanic Verses", 1),
        ("Who was the composer of Nixon in China?", "Nixon in China (opera)", 1),
        ("In what country is Łódź?", "Łódź", 1),
        ("who is the author of the satanic verses", "The Satanic Verses", 1),
        ("Which metal has the highest melting point?", "Tungsten", 1),
        ("With which Greek god was Mercury identified?", "Mercury (mythology)", 2),
    ],
)
async def test_a_question_finds_its_page(
    mediawiki: LocalWiki, new_client: NewClient, question: str, title: str, requests: int
) -> None:
    result = await found(new_client, question)
    assert title in [page.document.title for page in result.pages]
    assert result.requests == len(mediawiki.requests) <= requests


async def test_two_films_of_one_series_are_both_found(
    mediawiki: LocalWiki, new_client: NewClient
) -> None:
    result = await found(new_client, "Which film came out first, Alien or Aliens?")
    assert {"Alien (film)", "Aliens (film)"} <= {page.document.title for page in result.pages}
    assert len(mediawiki.requests) == 1


@pytest.mark.parametrize("name", ["Henry Feilden", "Georgia", "Mercury", "Steve McQueen"])
async def test_an_ambiguous_name_gives_what_its_page_lists(new_client: NewClient, name: str) -> None:
    result = await found(new_client, f"What is {name}?")
    titles = {page.document.title for page in result.pages}
    assert len(titles) > 1 and not titles & AMBIGUOUS
    assert {page.strategy for page in result.pages} == {Strategy.DISAMBIGUATION}


async def test_nothing_there_finds_nothing(mediawiki: LocalWiki, new_client: NewClient) -> None:
    result = await found(new_client, "What is the occupation of Zxqwv Blorptangle?")
    assert result.pages == ()
    assert len(mediawiki.requests) <= 3


async def test_a_document_names_revision_and_address(
    mediawiki: LocalWiki, new_client: NewClient
) -> None:
    (page,) = (await found(new_client, "Who wrote Dracula?", limit=1)).pages
    assert page.document.title == "Dracula" and page.strategy is Strategy.DIRECT
    assert page.document.revision is not None and page.document.revision.isdecimal()
    assert page.document.url == f"http://127.0.0.1:{mediawiki.port}/wiki/Dracula"


async def test_a_whole_page_comes_in_paragraphs(new_client: NewClient) -> None:
    (page,) = (await found(new_client, "Who wrote Dracula?", limit=1)).pages
    paragraphs = await WikiStrategies(new_client()).read(page.document, timeout_s=5)
    assert paragraphs and paragraphs[0].id == f"{page.document.id}#1"
    assert all(part.title == "Dracula" and "\n" not in part.text for part in paragraphs)


async def test_the_reproductions_way_takes_more_requests(
    mediawiki: LocalWiki, new_client: NewClient
) -> None:
    question = "Who was the director of Alien?"
    walk = SequentialStrategies(new_client())
    theirs = await walk.search(reproduction_plan(Sought(question)), limit=5, timeout_s=10)
    assert [page.document.title for page in theirs.pages] == ["Alien (film)"]
    assert theirs.requests == len(mediawiki.requests) == 3
    ours = await found(new_client, question)
    assert "Alien (film)" in [page.document.title for page in ours.pages]
    assert ours.requests == 1
