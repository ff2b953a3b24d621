"""Search in a local snapshot of an encyclopedia: full text over names and leads, no encoder."""

import asyncio
import re
from typing import Any

from lancedb.query import FullTextOperator, MultiMatchQuery
from lancedb.table import Table

from crag_core.errors import SearchFailed
from crag_core.types import Document, DocumentSource
from deployments.backends.indexes.lance_index import (
    LANCE_FAILURES,
    SEARCHED,
    IndexKind,
    open_table,
    read_manifest,
    searchable,
)

NAMES = "names"
"""Column of a page's title and redirects, one a line."""

_NAME_BOOST = 1.5
_CANDIDATES = 50
_COLUMNS = ["id", "title", "text", "url", "revision"]
_WORD = re.compile(r"\w+")
_QUALIFIER = re.compile(r"\s*\([^()]*\)\s*$")


def named_words(names: str, query: str) -> int:
    """How many words of the query are a page's name: its longest name that stands in the query.

    A qualifier in parentheses need not be there.

    >>> named_words("Nixon in China (opera)", "composer of Nixon in China")
    3
    >>> named_words("China", "Nixonian")
    0
    """
    spelt = _spelt(query)
    found = [words for name in names.split("\n") for words in _spellings(name) if words in spelt]
    return max((len(words.split()) for words in found), default=0)


class SnapshotSearch:
    """Pages of a snapshot; disambiguation pages are no evidence and are never found."""

    def __init__(self, table: Table) -> None:
        self._table = table

    @classmethod
    def open(cls, uri: str) -> "SnapshotSearch":
        """Open a folder or an object-store URI; raises SettingsError when it holds no snapshot."""
        return cls(open_table(uri, read_manifest(uri, IndexKind.SNAPSHOT)))

    async def search(self, query: str, *, limit: int) -> list[Document]:
        """At most `limit` pages: those named in the query first, longest name first, then by BM25.

        Any text is a query, its full-text operators plain words; no match finds nothing.
        Raises SearchFailed when the snapshot cannot be read.
        """
        words = searchable(query)
        if not words:
            return []
        try:
            pages = await asyncio.to_thread(self._by_text, words, max(limit, _CANDIDATES))
        except LANCE_FAILURES as error:
            raise SearchFailed("the snapshot could not be searched") from error
        pages.sort(key=lambda page: named_words(page[NAMES], words), reverse=True)
        return [_document(page) for page in pages[:limit]]

    def _by_text(self, words: str, candidates: int) -> list[dict[str, Any]]:
        match = MultiMatchQuery(
            words, [NAMES, SEARCHED], boosts=[_NAME_BOOST, 1.0], operator=FullTextOperator.OR
        )
        search = self._table.search(match, query_type="fts").where("disambiguation = false")
        pages: list[dict[str, Any]] = (
            search.select([*_COLUMNS, NAMES, "_score"]).limit(candidates).to_list()
        )
        return pages


def _document(page: dict[str, Any]) -> Document:
    columns = {name: page[name] for name in _COLUMNS if name != "id"}
    return Document(id=f"snapshot:{page['id']}", source=DocumentSource.SNAPSHOT, **columns)


def _spelt(text: str) -> str:
    """The words of a text, folded, each between blanks, so that only whole words are found in it."""
    return f" {' '.join(_WORD.findall(text.casefold()))} "


def _spellings(name: str) -> list[str]:
    """A name as it is and without its qualifier, unless nothing is left of it."""
    return [words for words in (_spelt(name), _spelt(_QUALIFIER.sub("", name))) if words.strip()]
