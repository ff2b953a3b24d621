"""The open reproduction's way through a plan: one query after the other until a page is valid."""

import time
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, replace

from crag_core.context import Lane
from crag_core.protocols import SearchResult
from crag_core.queries.plan import SearchPlan
from crag_core.queries.reproduction import first_sentences, is_valid, reads_as_disambiguation
from crag_core.types import Document, FoundPage, SearchQuery, Strategy
from deployments.backends.wikipedia.mediawiki_api import Page, QueryAnswer, plain_query
from deployments.backends.wikipedia.parameters import (
    entry_parameters,
    sendable_titles,
    title_list_parameters,
    title_parameters,
)
from deployments.backends.wikipedia.transport import QueryTransport

_PAGES_TRIED = 4
"""Entries of a disambiguation page, and hits of a search, that are looked at one by one."""


@dataclass(frozen=True, slots=True)
class SequentialStrategies:
    """Sends a request a page, as the reproduction does, and stops at the first valid page."""

    transport: QueryTransport

    async def search(
        self, plan: SearchPlan, *, limit: int, timeout_s: float, lane: Lane = Lane.INTERACTIVE
    ) -> SearchResult:
        """At most one page, its text the first three sentences of its lead; raises SearchFailed."""
        walk = _Walk(self.transport, plan, lane, time.monotonic() + timeout_s)
        async for page in walk.pages():
            text = first_sentences(page.document.text)
            found = replace(page, document=replace(page.document, text=text))
            return SearchResult((found,)[:limit], plan.queries, walk.requests)
        return SearchResult((), plan.queries, walk.requests)

    async def read(
        self, page: Document, *, timeout_s: float, lane: Lane = Lane.INTERACTIVE
    ) -> Sequence[Document]:
        """Nothing: the reproduction reads leads only."""
        return ()


@dataclass(slots=True)
class _Walk:
    transport: QueryTransport
    plan: SearchPlan
    lane: Lane
    give_up_at: float
    requests: int = 0

    async def pages(self) -> AsyncIterator[FoundPage]:
        """The valid pages of the queries, in their order."""
        for query in self.plan.queries:
            titles = [query.text]
            if query.strategy in {Strategy.SEARCH, Strategy.HINT}:
                titles = await self._searched(query.text)
            for title in titles:
                page = await self._page(title)
                if page is None:
                    continue
                if query.strategy is Strategy.DIRECT and _is_ambiguous(page):
                    async for entry in self._entries(page, query):
                        yield entry
                elif _is_valid(page, query):
                    yield self._found(page, query, query.strategy)

    async def _entries(self, page: Page, query: SearchQuery) -> AsyncIterator[FoundPage]:
        answer = await self._ask(entry_parameters([page.title]))
        for title in sorted(entry.title for entry in answer.query.pages)[:_PAGES_TRIED]:
            entry = await self._page(title)
            if entry is not None and _is_valid(entry, query):
                yield self._found(entry, query, Strategy.DISAMBIGUATION)

    async def _searched(self, text: str) -> list[str]:
        plain = plain_query(text)
        if not plain:
            return []
        answer = await self._ask(title_list_parameters(plain, _PAGES_TRIED))
        return [page.title for page in answer.ranked][:_PAGES_TRIED]

    async def _page(self, title: str) -> Page | None:
        sendable = sendable_titles([title])
        if not sendable:
            return None
        answer = await self._ask(title_parameters(sendable))
        return answer.pages_of(sendable)[0]

    async def _ask(self, parameters: Mapping[str, str]) -> QueryAnswer:
        self.requests += 1
        remaining_s = self.give_up_at - time.monotonic()
        return await self.transport.query(parameters, timeout_s=remaining_s, lane=self.lane)

    def _found(self, page: Page, query: SearchQuery, strategy: Strategy) -> FoundPage:
        return FoundPage(page.document(self.transport.host), query, strategy)


def _is_ambiguous(page: Page) -> bool:
    return page.is_disambiguation or reads_as_disambiguation(page.extract)


def _is_valid(page: Page, query: SearchQuery) -> bool:
    return page.is_readable and is_valid(query.entity, page.title, page.extract)
