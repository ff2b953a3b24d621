"""Search in a snapshot: names first, disambiguation pages never, nothing found is nothing."""

import shutil
import unicodedata
from pathlib import Path
from typing import Any

import pytest

from crag_core.errors import SearchFailed, SettingsError
from crag_core.protocols import SearchResult
from crag_core.queries.plan import Sought
from crag_core.queries.planning import plan_search
from crag_core.types import Document, DocumentSource, Strategy
from deployments.backends.indexes.index_builder import build_index
from deployments.backends.indexes.index_rows import SNAPSHOT
from deployments.backends.indexes.snapshot_search import SnapshotSearch, named_words
from tests.deployments.index_files import write_lines


def page(title: str, text: str, *redirects: str, disambiguation: bool = False) -> dict[str, Any]:
    return {
        "title": title,
        "text": text,
        "revision": len(title),
        "redirects": list(redirects),
        "disambiguation": disambiguation,
    }


PAGES = [
    page("Mercury", "Mercury may refer to:\nMercury (planet)\nMercury (element)", disambiguation=True),
    page("Mercury (planet)", "The planet closest to the Sun.\n\nIt has no moon."),
    page("Mercury (element)", "A metal that is liquid.", "Quicksilver", "Hg"),
    page("The Who", "An English rock band."),
    page("Who", "A pronoun: who asks for a person."),
    page("Rock band", "A band that plays rock, such as the Who, the Who and the Who."),
    page("Łódź", "A city in Poland.", "Lodz"),
    page("東京", "東京は日本の首都です。", "Tokyo"),
    page(unicodedata.normalize("NFD", "Ångström"), "A unit of length."),
    page("Nixon in China (opera)", "It has three acts."),
    page("Composer of China and of Nixon", "A composer in China, a composer of Nixon."),
    page("Poland", "A country; its cities are Warsaw, Łódź and Kraków."),
]


@pytest.fixture(scope="module")
def snapshot(tmp_path_factory: pytest.TempPathFactory) -> SnapshotSearch:
    folder = tmp_path_factory.mktemp("snapshot")
    file = write_lines(folder / "snapshot.jsonl", PAGES)
    build_index([file], folder / "index", None, schema=SNAPSHOT)
    return SnapshotSearch.open(str(folder / "index"))


async def search(
    snapshot: SnapshotSearch, text: str, *, limit: int = 5, is_query: bool = True
) -> SearchResult:
    return await snapshot.search(plan_search(Sought(text, is_query)), limit=limit)


async def titles(snapshot: SnapshotSearch, query: str) -> list[str]:
    return [page.document.title for page in (await search(snapshot, query)).pages]


@pytest.mark.parametrize(
    ("names", "query", "words"),
    [
        ("The Who", "drummer of the who", 2),
        ("Who", "drummer of the who", 1),
        ("Nixon in China (opera)", "composer of Nixon in China", 3),
        ("Mercury (element)\nQuicksilver", "quicksilver?", 1),
        ("Mercury (element)", "mercury element", 2),
        ("(element)", "mercury", 0),
        ("Poland", "Polandball", 0),
        ("東京", "東京", 1),
        ("???", "what is ???", 0),
        ("", "anything", 0),
    ],
)
def test_longest_name_in_the_query_counts(names: str, query: str, words: int) -> None:
    assert named_words(names, query) == words


async def test_page_comes_back_whole_with_its_revision(snapshot: SnapshotSearch) -> None:
    (first, *_) = (await search(snapshot, "Mercury (planet)", limit=1)).pages
    assert first.document == Document(
        id="snapshot:Mercury_(planet)",
        text="The planet closest to the Sun.\n\nIt has no moon.",
        title="Mercury (planet)",
        source=DocumentSource.SNAPSHOT,
        url=None,
        revision="16",
    )


@pytest.mark.parametrize(
    ("query", "best"),
    [
        ("The Who", "The Who"),
        ("drummer of the Who", "The Who"),
        ("Who", "Who"),
        ("quicksilver", "Mercury (element)"),
        ("Hg", "Mercury (element)"),
        ("Lodz", "Łódź"),
        ("country of Łódź", "Łódź"),
        ("Poland", "Poland"),
        ("composer of Nixon in China", "Nixon in China (opera)"),
        ("Tokyo", "東京"),
        ("日本", "東京"),
        ("Ångström", unicodedata.normalize("NFD", "Ångström")),
        ('planet "Mercury" AND OR (title:', "Mercury (planet)"),
    ],
)
async def test_page_named_in_the_query_comes_first(
    snapshot: SnapshotSearch, query: str, best: str
) -> None:
    assert (await titles(snapshot, query))[0] == best


@pytest.mark.parametrize(
    ("question", "found"),
    [
        ("Who was the composer of Nixon in China?", {"Nixon in China (opera)": Strategy.TYPED}),
        ("What is quicksilver?", {"Mercury (element)": Strategy.DIRECT}),
        ("In what country is Lodz?", {"Łódź": Strategy.DIRECT}),
        ("What is the occupation of Zxqwv Blorptangle?", {}),
        (
            "What is Mercury?",
            {
                "Mercury (planet)": Strategy.DISAMBIGUATION,
                "Mercury (element)": Strategy.DISAMBIGUATION,
            },
        ),
    ],
)
async def test_a_question_is_searched_by_the_same_plan_as_in_a_wiki(
    snapshot: SnapshotSearch, question: str, found: dict[str, Strategy]
) -> None:
    result = await search(snapshot, question, is_query=False)
    pages = {page.document.title: page.strategy for page in result.pages}
    assert found.items() <= pages.items()
    assert bool(pages) is bool(found)
    assert result.queries and result.requests == 0


async def test_disambiguation_page_is_never_evidence(snapshot: SnapshotSearch) -> None:
    assert set(await titles(snapshot, "Mercury")) == {"Mercury (planet)", "Mercury (element)"}


@pytest.mark.parametrize("query", ["", " ", "?", '"', "\0", "\ud800", "😀", "zzzz qqqq", "x" * 100_000])
async def test_query_without_a_match_finds_nothing(snapshot: SnapshotSearch, query: str) -> None:
    assert (await search(snapshot, query)).pages == ()


async def test_limit_holds(snapshot: SnapshotSearch) -> None:
    assert len((await search(snapshot, "rock band", limit=1)).pages) == 1


async def test_snapshot_that_vanishes_is_an_outage(tmp_path: Path) -> None:
    file = write_lines(tmp_path / "snapshot.jsonl", PAGES)
    build_index([file], tmp_path / "index", None, schema=SNAPSHOT)
    snapshot = SnapshotSearch.open(str(tmp_path / "index"))
    shutil.rmtree(tmp_path / "index")
    with pytest.raises(SearchFailed):
        await search(snapshot, "Poland")


def test_missing_snapshot_is_refused_with_the_command_that_builds_one(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match=f"{tmp_path} holds no finished index.*crag snapshot build"):
        SnapshotSearch.open(str(tmp_path))


@pytest.mark.parametrize(
    ("bad", "reason"),
    [
        ({"text": "a", "revision": 1}, "title: Field required"),
        ({"title": " ", "text": "a", "revision": 1}, "title: Input should not be blank"),
        ({"title": "A", "text": "a"}, "revision: Field required"),
        ({"title": "A", "text": "a", "revision": 1, "redirects": "B"}, "redirects: Input should be a"),
        (
            {"title": "A", "text": "a", "revision": 1, "disambiguation": 1},
            "disambiguation: Input should",
        ),
        ({"title": "Poland", "text": "a", "revision": 1}, "an earlier row has the id 'Poland'"),
    ],
)
def test_page_without_what_a_page_needs_is_rejected(
    tmp_path: Path, bad: dict[str, Any], reason: str
) -> None:
    file = write_lines(tmp_path / "snapshot.jsonl", [*PAGES, bad])
    report = build_index([file], tmp_path / "index", None, schema=SNAPSHOT)
    (rejection,) = report.rejections
    assert rejection.line == len(PAGES) + 1
    assert rejection.reason.startswith(reason)
    assert report.manifest.rows == len(PAGES)
