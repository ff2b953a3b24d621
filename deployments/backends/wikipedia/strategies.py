"""The five search strategies over the Action API, folded into one request where it can be.

1. One request looks up the direct title, the typed ones and the hinted ones of all entities.
2. An entity without a page has what its disambiguation page lists, or is searched for in full text.
Most questions end after the first; none sends more than the setting allows.
"""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from crag_core.context import Lane
from crag_core.degrade import search_reason
from crag_core.errors import SearchFailed
from crag_core.protocols import SearchResult
from crag_core.queries.plan import SearchPlan
from crag_core.queries.validation import (
    has_title_of,
    is_about,
    is_shortened,
    lists_meanings,
    match_of,
    share_of_entity,
)
from crag_core.queries.wording import folded
from crag_core.types import Document, FoundPage, Reason, SearchQuery, Strategy
from deployments.backends.wikipedia.mediawiki_api import Page, QueryAnswer, plain_query
from deployments.backends.wikipedia.paragraphs import first_paragraphs, paragraph_documents
from deployments.backends.wikipedia.parameters import (
    MAX_PAGES,
    entry_parameters,
    search_parameters,
    sendable_titles,
    whole_page_parameters,
)
from deployments.backends.wikipedia.transport import QueryTransport

_SEARCHED_PAGES = 10
"""Pages asked for in full text: the first need not be the one whose title and kind fit best."""


class _Name(NamedTuple):
    """A page under a name, where the page itself is no evidence."""

    query: SearchQuery
    page: Page


@dataclass(frozen=True, slots=True)
class WikiStrategies:
    """Finds the pages of a plan with as few requests as it can; at most `max_requests` a plan."""

    transport: QueryTransport
    max_requests: int = 3

    async def search(
        self, plan: SearchPlan, *, limit: int, timeout_s: float, lane: Lane = Lane.INTERACTIVE
    ) -> SearchResult:
        """Leads of the pages found, best first; at most `limit`, but every entry of a disambiguation.

        An empty result means that nothing was found. Raises SearchFailed when the first request
        fails; a later one that fails leaves what was found before, which the result says.
        """
        if not plan.queries:
            return SearchResult((), plan.queries, requests=0)
        search = _Search(
            self.transport, plan, limit, self.max_requests, lane, time.monotonic() + timeout_s
        )
        await search.run()
        return SearchResult(search.ranked(), plan.queries, search.requests, search.cut_short)

    async def read(
        self, page: Document, *, timeout_s: float, lane: Lane = Lane.INTERACTIVE
    ) -> Sequence[Document]:
        """The paragraphs of a page in full, in order; raises SearchFailed."""
        page_id = page.id.removeprefix("wikipedia:")
        answer = await self.transport.query(
            whole_page_parameters(page_id), timeout_s=timeout_s, lane=lane
        )
        for whole in answer.query.pages:
            if whole.is_readable:
                return paragraph_documents(whole.document(self.transport.host))
        return ()


@dataclass(slots=True)
class _Search:
    """One plan under way: pages by number, each once, as the first query that led to it found it."""

    transport: QueryTransport
    plan: SearchPlan
    limit: int
    max_requests: int
    lane: Lane
    give_up_at: float
    requests: int = 0
    cut_short: Reason | None = None
    found: dict[int, FoundPage] = field(default_factory=dict)
    spare: dict[int, FoundPage] = field(default_factory=dict)
    ambiguous: dict[str, _Name] = field(default_factory=dict)
    unread: dict[str, _Name] = field(default_factory=dict)
    exhausted: list[frozenset[str]] = field(default_factory=list)
    """Words of full-text searches that came back with every page there is for them."""

    async def run(self) -> None:
        await self._look_up_titles()
        try:
            await self._look_further()
        except SearchFailed as outage:
            if not self.found:  # an outage must not look like an empty result
                raise
            self.cut_short = search_reason(outage)

    async def _look_further(self) -> None:
        missing = self._missing()
        entries = [self.ambiguous[name] for name in missing if name in self.ambiguous]
        if entries and self._may_ask():
            await self._follow(entries)
        for name in self._missing():
            if name in self.unread and self._may_ask():
                await self._read_whole(self.unread[name])
        for query in self.plan.searches:
            if not self._may_ask():
                return
            is_last_resort = query is self.plan.searches[-1]
            if query.entity in self._missing() or (is_last_resort and not self.found):
                await self._search_text(query)

    async def _look_up_titles(self) -> None:
        queries = {
            title: query
            for query in reversed(self.plan.titles)
            for title in sendable_titles([query.text])
        }
        titles = [title for query in self.plan.titles for title in sendable_titles([query.text])]
        titles = list(dict.fromkeys(titles))[:MAX_PAGES]
        if not titles:
            return
        self.requests += 1
        remaining_s = self.give_up_at - time.monotonic()
        pages = await self.transport.titled(titles, timeout_s=remaining_s, lane=self.lane)
        for title, page in zip(titles, pages, strict=True):
            query = queries[title]
            if page is None or page.ns != 0:
                continue
            if page.is_disambiguation or lists_meanings(page.extract):
                self.ambiguous.setdefault(query.entity, _Name(query, page))
            elif not page.is_readable:
                self.unread.setdefault(query.entity, _Name(query, page))
            elif not is_shortened(query.entity, title) or _has_all_of(query.entity, page):
                is_told = query.strategy is not Strategy.DIRECT
                self._take(page, query, query.strategy, is_expected=is_told or self._fits(page))

    async def _follow(self, names: Sequence[_Name]) -> None:
        """What disambiguation pages list, as far as it is about the name."""
        answer = await self._ask(entry_parameters([name.page.title for name in names]))
        for name in names:
            query, entity = name.query, name.query.entity
            pages = [page for page in answer.query.pages if page.is_readable and _is_about(entity, page)]
            fitting = [page for page in pages if self._fits(page)]
            guessed = [page for page in self.found.values() if page.query.entity == entity]
            for page in fitting or pages:
                self.found.pop(page.pageid or 0, None)
                self._take(page, query, Strategy.DISAMBIGUATION, is_expected=True)
            for other in guessed:  # a typed title was only one guess among these
                self.found[_number(other)] = replace(other, strategy=Strategy.DISAMBIGUATION)

    async def _read_whole(self, name: _Name) -> None:
        """A page that begins with a heading or a table has no lead: its first paragraphs instead."""
        answer = await self._ask(whole_page_parameters(str(name.page.pageid)))
        for page in answer.query.pages:
            text = first_paragraphs(page.extract)
            if page.is_readable and text:
                whole = page.model_copy(update={"extract": text})
                self._take(whole, name.query, name.query.strategy, is_expected=True)

    async def _search_text(self, query: SearchQuery) -> None:
        text = plain_query(query.text)
        words = frozenset(folded(text).split())
        if not text or any(fewer <= words for fewer in self.exhausted):
            return  # a wiki wants all words in a page: more words find none that fewer did not
        wanted = max(self.limit, _SEARCHED_PAGES)
        answer = await self._ask(search_parameters(text, wanted))
        if words and len(answer.ranked) < wanted:  # signs alone are no words
            self.exhausted.append(words)
        for page in answer.ranked:
            if page.is_readable and not lists_meanings(page.extract) and _is_about(query.entity, page):
                self._take(page, query, Strategy.SEARCH, is_expected=self._fits(page))

    def _take(self, page: Page, query: SearchQuery, strategy: Strategy, *, is_expected: bool) -> None:
        is_asked_for = query.entity in self.plan.entities or not self.plan.entities
        pages = self.found if is_expected and is_asked_for else self.spare
        document = page.document(self.transport.host)
        pages.setdefault(page.pageid or 0, FoundPage(document, query, strategy))

    def _fits(self, page: Page) -> bool:
        return self.plan.kind.fits(f"{page.title} {page.extract}")

    def ranked(self) -> tuple[FoundPage, ...]:
        """The pages of the entities, the best match first; without any, those of other names."""
        asked = frozenset(word for query in self.plan.searches for word in folded(query.text).split())

        def match(page: FoundPage) -> tuple[bool, bool, int, float]:
            document, entity = page.document, page.query.entity
            return match_of(entity, self.plan.kind, asked, document.title, document.text)

        pages = sorted(self._kept(), key=match, reverse=True)
        entries = [page for page in pages if page.strategy is Strategy.DISAMBIGUATION]
        others = [page for page in pages if page.strategy is not Strategy.DISAMBIGUATION]
        return (*others[: self.limit], *entries)

    def _kept(self) -> list[FoundPage]:
        """What was found; for a name that no page found has, the one whose kind spoke against it too."""
        named = {page.query.entity for page in self.found.values() if _has_the_name(page)}
        doubtful = [
            page
            for page in self.spare.values()
            if page.query.entity in self.plan.entities
            and page.query.entity not in named
            and _has_the_name(page)
        ]
        return [*self.found.values(), *doubtful] or list(self.spare.values())

    def _missing(self) -> list[str]:
        """Entities that still need a page, as many as the plan needs."""
        has = {
            page.query.entity
            for page in self.found.values()
            if page.strategy is Strategy.DISAMBIGUATION or not self._is_guess(page)
        }
        open_entities = [name for name in self.plan.entities if name not in has]
        return open_entities if len(has) < self.plan.needed else []

    def _is_guess(self, page: FoundPage) -> bool:
        """Whether a typed title names one of several of that name, and not the kind asked for."""
        entity = page.query.entity
        return (
            entity in self.ambiguous
            and page.strategy is Strategy.TYPED
            and not self.plan.kind.is_told_by_title
        )

    def _may_ask(self) -> bool:
        return self.requests < self.max_requests and time.monotonic() < self.give_up_at

    async def _ask(self, parameters: Mapping[str, str]) -> QueryAnswer:
        self.requests += 1
        remaining_s = self.give_up_at - time.monotonic()
        return await self.transport.query(parameters, timeout_s=remaining_s, lane=self.lane)


def _has_all_of(entity: str, page: Page) -> bool:
    return share_of_entity(entity, page.title, page.extract) == 1.0


def _is_about(entity: str, page: Page) -> bool:
    return is_about(entity, page.title, page.extract)


def _has_the_name(page: FoundPage) -> bool:
    return page.strategy is not Strategy.SEARCH or has_title_of(page.query.entity, page.document.title)


def _number(page: FoundPage) -> int:
    return int(page.document.id.removeprefix("wikipedia:"))
