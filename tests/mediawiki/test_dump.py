"""A snapshot built from a real wiki's own dump, held against what the wiki's API says."""

import json
from pathlib import Path

import httpx
import pytest

from crag_core.queries.plan import Sought
from crag_core.queries.planning import plan_search
from deployments.backends.indexes.index_builder import IndexReport, build_index
from deployments.backends.indexes.index_rows import SNAPSHOT as SCHEMA
from deployments.backends.indexes.lance_index import IndexKind, open_table, read_manifest
from deployments.backends.indexes.snapshot_search import SnapshotSearch
from deployments.backends.wikipedia.strategies import WikiStrategies
from tests.mediawiki.conftest import SNAPSHOT, NewClient
from tests.mediawiki.local_wiki import LocalWiki

pytestmark = pytest.mark.mediawiki

PAGES = [json.loads(line) for line in SNAPSHOT.read_text(encoding="utf-8").splitlines()]
ARTICLES = [page["title"] for page in PAGES if not page["disambiguation"]]
API_TITLES = 20
"""Introductions that the API gives at once."""


@pytest.fixture(scope="module")
def built(wiki: LocalWiki, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, IndexReport]:
    folder = tmp_path_factory.mktemp("dump")
    dump = wiki.dump(folder / "wiki.xml.bz2")
    return folder / "out", build_index([dump], folder / "out", None, schema=SCHEMA)


def test_every_page_of_the_wiki_is_in_the_snapshot(built: tuple[Path, IndexReport]) -> None:
    out, report = built
    rows = open_table(str(out), read_manifest(str(out), IndexKind.SNAPSHOT)).to_arrow().to_pylist()
    by_title = {row["title"]: row for row in rows}
    assert report.rejections == ()
    assert set(by_title) - {"Main Page"} == {page["title"] for page in PAGES}
    for page in PAGES:
        row = by_title[page["title"]]
        assert row["disambiguation"] is page["disambiguation"], page["title"]
        redirects = {name[0].upper() + name[1:] for name in page["redirects"]} - set(by_title)
        assert redirects <= set(row["names"].split("\n")), page["title"]


def test_introductions_revisions_and_addresses_are_those_of_the_api(
    built: tuple[Path, IndexReport], wiki: LocalWiki
) -> None:
    out, _ = built
    rows = open_table(str(out), read_manifest(str(out), IndexKind.SNAPSHOT)).to_arrow().to_pylist()
    by_title = {row["title"]: row for row in rows}
    compared = 0
    for begin in range(0, len(ARTICLES), API_TITLES):
        answer = httpx.get(
            wiki.api_url,
            params={
                "action": "query",
                "format": "json",
                "formatversion": "2",
                "prop": "extracts|info",
                "exintro": "1",
                "explaintext": "1",
                "exlimit": "max",
                "inprop": "url",
                "titles": "|".join(ARTICLES[begin : begin + API_TITLES]),
            },
            headers={"User-Agent": "crag-serve-tests (https://crag-serve.example)"},
            trust_env=False,
        ).json()
        for page in answer["query"]["pages"]:
            row = by_title[page["title"]]
            assert row["text"].split() == page["extract"].split(), page["title"]
            assert row["revision"] == str(page["lastrevid"])
            # the port is that of the run, the path is the page's
            assert row["url"].partition("/wiki/")[2] == page["canonicalurl"].partition("/wiki/")[2]
            compared += 1
    assert compared == len(ARTICLES)


@pytest.mark.parametrize("query", ["Dracula", "AC/DC", "C++", "東京", "Beyonce", "Schrödinger's cat"])
async def test_snapshot_finds_the_page_that_the_wiki_finds(
    built: tuple[Path, IndexReport], new_client: NewClient, query: str
) -> None:
    plan = plan_search(Sought(query))
    online_pages = await WikiStrategies(new_client()).search(plan, limit=3, timeout_s=5)
    offline_pages = await SnapshotSearch.open(str(built[0])).search(plan, limit=3)
    online, offline = online_pages.pages[0].document, offline_pages.pages[0].document
    assert (offline.title, offline.revision) == (online.title, online.revision)
    assert offline.text.split() == online.text.split()
