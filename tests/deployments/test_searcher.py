"""The searcher's replica over the sample snapshot, and the optional finder of names."""

from pathlib import Path

import pytest

from crag_core.errors import SearchFailed, SettingsError
from crag_core.queries.plan import Sought
from crag_core.types import DocumentSource, Strategy
from deployments.backends.entity_finder import SpacyEntityFinder
from deployments.messages import ReadRequest, SearchRequest, WireContext
from deployments.searcher import Searcher
from deployments.settings import SearcherSettings
from tests.fakes import context

SNAPSHOT = str(Path(__file__).parents[2] / ".indexes" / "sample-snapshot")
PIPELINE = str(Path(__file__).parents[2] / ".models" / "en-core-web-sm")


def searcher(**settings: object) -> Searcher:
    return Searcher(SearcherSettings.model_validate({"snapshot": SNAPSHOT, **settings}))


def request(text: str, source: DocumentSource = DocumentSource.SNAPSHOT) -> SearchRequest:
    return SearchRequest(WireContext.of(context()), source, Sought(text), 5)


@pytest.mark.parametrize(
    ("question", "title", "strategy"),
    [
        ("What does BSOD stand for?", "Blue screen of death", Strategy.DIRECT),
        ("Who was the director of Alien?", "Alien (film)", Strategy.TYPED),
        ("In what country is Georgia?", "Georgia (country)", Strategy.DISAMBIGUATION),
        ("Who was the first person to walk on the Moon?", "Neil Armstrong", Strategy.SEARCH),
    ],
)
async def test_a_question_is_planned_and_searched_in_the_snapshot(
    question: str, title: str, strategy: Strategy
) -> None:
    result = await searcher().search(request(question))
    assert (title, strategy) in {(page.document.title, page.strategy) for page in result.pages}


async def test_the_reproductions_mode_asks_by_its_rules() -> None:
    result = await searcher(mode="reproduction").search(request("Which is first, Alien or Aliens?"))
    assert result.queries[0].text == "Which"


async def test_a_snapshot_has_no_more_of_a_page_than_its_search_returned() -> None:
    replica = searcher()
    (page, *_) = (await replica.search(request("What is kale?"))).pages
    read = ReadRequest(WireContext.of(context()), DocumentSource.SNAPSHOT, page.document)
    assert await replica.read(read) == ()


async def test_a_source_that_is_not_configured_is_an_outage() -> None:
    with pytest.raises(SearchFailed, match="no source wikipedia"):
        await searcher().search(request("Who?", DocumentSource.WIKIPEDIA))


def test_a_pipeline_that_is_not_there_is_named_with_what_to_do() -> None:
    for name in ("nowhere", str(Path(__file__).parent)):
        with pytest.raises(SettingsError, match="cannot be loaded: name the folder or the installed"):
            SpacyEntityFinder.load(name)


async def test_spacy_finds_names_for_the_plan() -> None:
    finder = SpacyEntityFinder.load(PIPELINE)
    assert finder.find("Did Marie Curie win the prize in 1903?") == ["Marie Curie"]
    result = await searcher(entity_model=PIPELINE).search(request("What is kale?"))
    assert [page.document.title for page in result.pages] == ["Kale"]
