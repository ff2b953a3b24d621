"""Knowledge searching in a MediaWiki such as Wikipedia: one request to its Action API per query."""

from pydantic import SecretStr

from crag_core.context import Lane
from crag_core.types import Document
from deployments.backends.wikipedia.budget import SearchBudget
from deployments.backends.wikipedia.mediawiki_api import (
    plain_query,
    readable_documents,
    search_parameters,
)
from deployments.backends.wikipedia.session import WikiSession
from deployments.backends.wikipedia.shared_pool import SharedPool
from deployments.backends.wikipedia.transport import PooledTransport
from deployments.settings import MediaWikiSettings


def open_transport(
    settings: MediaWikiSettings,
    budget: SearchBudget | None = None,
    token: SecretStr | None = None,
) -> PooledTransport:
    """A transport to the wiki of the settings; without a budget to share, with one of its own."""
    return PooledTransport(settings, WikiSession(settings, token), budget or SharedPool(settings))


class MediaWiki:
    """Searches a MediaWiki; one client per process, closed when the process ends."""

    def __init__(self, settings: MediaWikiSettings, transport: PooledTransport | None = None) -> None:
        """Without a transport, one with a budget of its own."""
        self._host = settings.host
        self._transport = transport or open_transport(settings)

    async def search(
        self, query: str, *, limit: int, timeout_s: float, lane: Lane = Lane.INTERACTIVE
    ) -> list[Document]:
        """Introductions of the pages that match the query, best first, at most `limit` (1 to 20).

        Takes at most `timeout_s` seconds, waits for the budget and retries included.
        Raises SearchFailed; an empty list means that nothing was found.
        """
        query = plain_query(query)
        if not query:
            return []
        parameters = search_parameters(query, limit)
        answer = await self._transport.query(parameters, timeout_s=timeout_s, lane=lane)
        return readable_documents(answer, self._host)[:limit]

    async def close(self) -> None:
        """Close the connections; a later search opens new ones."""
        await self._transport.close()
