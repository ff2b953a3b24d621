"""The searcher's replica."""

from collections.abc import Sequence

from pydantic import SecretStr

from crag_core.errors import SearchFailed
from crag_core.types import Document, DocumentSource
from deployments.backends.wikipedia.budget import SearchBudget
from deployments.messages import SearchRequest
from deployments.settings import SearcherSettings


class Searcher:
    """Finds web documents: candidates only; choosing among them is the core's business."""

    def __init__(
        self,
        settings: SearcherSettings,
        budget: SearchBudget | None = None,
        token: SecretStr | None = None,
    ) -> None:
        """Opens the snapshot and prepares the client; raises SettingsError when a part is missing.

        `budget` is what all replicas share for the wiki, `token` the operator's for it.
        """
        # imported here: the node that builds the application need not load what only a replica uses
        from deployments.backends.indexes.snapshot_search import SnapshotSearch
        from deployments.backends.wikipedia.fallback_budget import FallbackBudget
        from deployments.backends.wikipedia.mediawiki import MediaWiki, open_transport

        self._mediawiki: MediaWiki | None = None
        if settings.mediawiki is not None:
            shared = budget and FallbackBudget(budget, settings.mediawiki)
            transport = open_transport(settings.mediawiki, shared, token)
            self._mediawiki = MediaWiki(settings.mediawiki, transport)
        self._snapshot = settings.snapshot and SnapshotSearch.open(settings.snapshot)

    async def search(self, request: SearchRequest) -> Sequence[Document]:
        """Documents of one source, best first; empty when nothing was found."""
        ctx = request.context.localize()
        if request.source is DocumentSource.WIKIPEDIA and self._mediawiki:
            return await self._mediawiki.search(
                request.query, limit=request.limit, timeout_s=ctx.remaining_s(), lane=ctx.lane
            )
        if request.source is DocumentSource.SNAPSHOT and self._snapshot:
            return await self._snapshot.search(request.query, limit=request.limit)
        raise SearchFailed(f"the searcher has no source {request.source}")
