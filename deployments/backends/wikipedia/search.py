"""A wiki, ready to be searched: the transport with the strategies of the configured mode over it."""

from collections.abc import Sequence
from typing import Protocol

from crag_core.protocols import SearchResult
from crag_core.queries.plan import SearchPlan
from crag_core.types import Document
from deployments.backends.wikipedia.mediawiki import MediaWiki
from deployments.backends.wikipedia.sequential import SequentialStrategies
from deployments.backends.wikipedia.strategies import WikiStrategies
from deployments.settings import MediaWikiSettings, SearcherSettings, SearchMode


class WikiSearch(Protocol):
    """Finds the pages of a plan, and reads one of them in full."""

    async def search(self, plan: SearchPlan, *, limit: int, timeout_s: float) -> SearchResult:
        """Leads of the pages found; raises SearchFailed."""
        ...

    async def read(self, page: Document, *, timeout_s: float) -> Sequence[Document]:
        """The paragraphs of a page; raises SearchFailed."""
        ...


def wiki_search(wiki: MediaWikiSettings, settings: SearcherSettings) -> WikiSearch:
    """The search of one wiki in the mode of the settings."""
    transport = MediaWiki(wiki)
    match settings.mode:
        case SearchMode.BATCHED:
            return WikiStrategies(transport, settings.max_requests)
        case SearchMode.REPRODUCTION:
            return SequentialStrategies(transport)
