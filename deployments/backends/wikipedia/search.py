"""A wiki, ready to be searched: the strategies of the configured mode over a transport."""

from collections.abc import Sequence
from typing import Protocol

from crag_core.context import Lane
from crag_core.protocols import SearchResult
from crag_core.queries.plan import SearchPlan
from crag_core.types import Document
from deployments.backends.wikipedia.sequential import SequentialStrategies
from deployments.backends.wikipedia.strategies import WikiStrategies
from deployments.backends.wikipedia.transport import QueryTransport
from deployments.settings import SearcherSettings, SearchMode


class WikiSearch(Protocol):
    """Finds the pages of a plan, and reads one of them in full."""

    async def search(
        self, plan: SearchPlan, *, limit: int, timeout_s: float, lane: Lane = Lane.INTERACTIVE
    ) -> SearchResult:
        """Leads of the pages found; raises SearchFailed."""
        ...

    async def read(
        self, page: Document, *, timeout_s: float, lane: Lane = Lane.INTERACTIVE
    ) -> Sequence[Document]:
        """The paragraphs of a page; raises SearchFailed."""
        ...


def wiki_search(wiki: QueryTransport, settings: SearcherSettings) -> WikiSearch:
    """The search of one wiki in the mode of the settings."""
    match settings.mode:
        case SearchMode.BATCHED:
            return WikiStrategies(wiki, settings.max_requests)
        case SearchMode.REPRODUCTION:
            return SequentialStrategies(wiki)
