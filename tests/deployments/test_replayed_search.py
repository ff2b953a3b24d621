"""A replayed search: pages by request id, for evaluation, never beside another source."""

import gzip
import json
from pathlib import Path

import pytest

from crag_core.context import RequestContext
from crag_core.errors import SettingsError
from crag_core.queries.plan import Sought
from crag_core.types import DocumentSource
from deployments.backends.replayed_search import ReplayedSearch
from deployments.messages import SearchRequest, WireContext
from deployments.searcher import Searcher
from deployments.settings import SearcherSettings

ROWS = [
    {"id": "7", "external": [{"title": "Page", "text": "Ann."}, {"title": None, "text": "Bob."}]},
    {"id": "8", "external": []},
]


@pytest.fixture
def file(tmp_path: Path) -> str:
    path = tmp_path / "popqa.jsonl.gz"
    path.write_bytes(gzip.compress("".join(json.dumps(row) + "\n" for row in ROWS).encode()))
    return str(path)


async def found(searcher: Searcher, request_id: str, limit: int = 5) -> list[str]:
    ctx = WireContext.of(RequestContext.starting_now(request_id, 5))
    request = SearchRequest(ctx, DocumentSource.REPLAY, Sought("Who?"), limit)
    return [page.document.text for page in (await searcher.search(request)).pages]


async def test_pages_are_those_of_the_question_that_asks(file: str) -> None:
    searcher = Searcher(SearcherSettings(replay=(file,)))
    assert await found(searcher, "popqa.7") == ["Ann.", "Bob."]
    assert await found(searcher, "popqa.7", limit=1) == ["Ann."]
    assert await found(searcher, "popqa.8") == await found(searcher, "7") == []


def test_pages_name_their_source(file: str) -> None:
    (page, _) = ReplayedSearch.open([file]).search("popqa.7", limit=2).pages
    assert (page.document.id, page.document.source) == ("replay:popqa.7:0", DocumentSource.REPLAY)


@pytest.mark.parametrize("content", [b'{"id": "7"}\n', b'{"id": "7", "external"', b"[]\n"])
def test_a_file_that_holds_none_is_refused(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "popqa.jsonl").write_bytes(content)
    with pytest.raises(SettingsError, match="is no question set with `external` to replay"):
        ReplayedSearch.open([str(tmp_path / "popqa.jsonl")])


def test_no_other_source_stands_beside_a_replay(file: str) -> None:
    with pytest.raises(ValueError, match="takes `replay` alone"):
        SearcherSettings(replay=(file,), snapshot="snapshot")
    assert SearcherSettings(replay=(file,)).sources == (DocumentSource.REPLAY,)
