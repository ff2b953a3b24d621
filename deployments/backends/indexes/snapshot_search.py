"""Search in a local snapshot of an encyclopedia: full text over names and leads, no encoder."""

import asyncio
import re
from collections import Counter
from dataclasses import replace
from typing import Any

from lancedb.query import FullTextOperator, MultiMatchQuery
from lancedb.table import Table

from crag_core.errors import SearchFailed
from crag_core.protocols import SearchResult
from crag_core.queries.plan import SearchPlan
from crag_core.queries.validation import has_title_of, is_about
from crag_core.queries.wording import folded
from crag_core.types import Document, DocumentSource, FoundPage, SearchQuery, Strategy
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

    async def search(self, plan: SearchPlan, *, limit: int) -> SearchResult:
        """Pages of the plan's names, else of its text: at most `limit`, best first.

        Pages whose names differ in their qualifier alone, and none of which is the name itself, share
        an ambiguous name and come all. Any text is a query, its full-text operators plain words.
        Raises SearchFailed when the snapshot cannot be read.
        """
        try:
            pages = await asyncio.to_thread(self._pages, plan, max(limit, _CANDIDATES))
        except LANCE_FAILURES as error:
            raise SearchFailed("the snapshot could not be searched") from error
        shared = [page for page in pages if page.strategy is Strategy.DISAMBIGUATION]
        others = [page for page in pages if page.strategy is not Strategy.DISAMBIGUATION]
        return SearchResult((*others[:limit], *shared), plan.queries)

    def _pages(self, plan: SearchPlan, candidates: int) -> list[FoundPage]:
        found: dict[str, FoundPage] = {}
        for query in plan.searches:
            words = searchable(query.text)
            has = {page.query.entity for page in found.values()}
            if not words or query.entity in has:
                continue
            rows = [
                row
                for row in self._by_text(words, candidates)
                if named_words(row[NAMES], words) > 1
                or is_about(query.entity, row[NAMES].replace("\n", " "), row["text"])
            ]
            rows.sort(key=lambda row: named_words(row[NAMES], words), reverse=True)
            pages = [_found(row, query, plan) for row in rows]
            named = [page for page in pages if page.strategy is not Strategy.SEARCH]
            fitting = [page for page in pages if _fits(plan, page)]
            for page in (*(page for page in named if _fits(plan, page)), *(fitting or pages)):
                found.setdefault(page.document.id, page)
        return _told_apart(list(found.values()))

    def _by_text(self, words: str, candidates: int) -> list[dict[str, Any]]:
        match = MultiMatchQuery(
            words, [NAMES, SEARCHED], boosts=[_NAME_BOOST, 1.0], operator=FullTextOperator.OR
        )
        search = self._table.search(match, query_type="fts").where("disambiguation = false")
        pages: list[dict[str, Any]] = (
            search.select([*_COLUMNS, NAMES, "_score"]).limit(candidates).to_list()
        )
        return pages


def _found(row: dict[str, Any], query: SearchQuery, plan: SearchPlan) -> FoundPage:
    """A page by the first of the plan's titles that is one of its names, else by the text."""
    names = {folded(name) for name in row[NAMES].split("\n")}
    titled = (look_up for look_up in plan.titles if folded(look_up.text) in names)
    columns = {name: row[name] for name in _COLUMNS if name != "id"}
    document = Document(id=f"snapshot:{row['id']}", source=DocumentSource.SNAPSHOT, **columns)
    by = next((look_up for look_up in titled if look_up.entity == query.entity), query)
    return FoundPage(document, by, by.strategy)


def _fits(plan: SearchPlan, page: FoundPage) -> bool:
    return plan.kind.fits(f"{page.document.title} {page.document.text}")


def _told_apart(pages: list[FoundPage]) -> list[FoundPage]:
    """Pages of a name that no page has alone are marked as sharing it."""
    direct = {page.query.entity for page in pages if page.strategy is Strategy.DIRECT}

    def shares_name(page: FoundPage) -> bool:
        entity = page.query.entity
        return entity not in direct and has_title_of(entity, page.document.title)

    names = Counter(page.query.entity for page in pages if shares_name(page))
    return [
        replace(page, strategy=Strategy.DISAMBIGUATION)
        if names[page.query.entity] > 1 and shares_name(page)
        else page
        for page in pages
    ]


def _spelt(text: str) -> str:
    """The words of a text, folded, each between blanks, so that only whole words are found in it."""
    return f" {' '.join(_WORD.findall(text.casefold()))} "


def _spellings(name: str) -> list[str]:
    """A name as it is and without its qualifier, unless nothing is left of it."""
    return [words for words in (_spelt(name), _spelt(_QUALIFIER.sub("", name))) if words.strip()]
