"""The searcher's replica."""

from collections.abc import Sequence

from crag_core.errors import SearchFailed
from crag_core.types import Document, DocumentSource
from deployments.messages import SearchRequest
from deployments.settings import SearcherSettings


class Searcher:
    """Finds web documents: candidates only; choosing among them is the core's business."""

    def __init__(self, settings: SearcherSettings) -> None:
        """Opens the snapshot and prepares the client; raises SettingsError when a part is missing."""
        # imported here: the node that builds the application need not load what only a replica uses
        from deployments.backends.indexes.snapshot_search import SnapshotSearch
        from deployments.backends.wikipedia.mediawiki import MediaWiki

        self._mediawiki = settings.mediawiki and MediaWiki(settings.mediawiki)
        self._snapshot = settings.snapshot and SnapshotSearch.open(settings.snapshot)

    async def search(self, request: SearchRequest) -> Sequence[Document]:
        """Documents of one source, best first; empty when nothing was found."""
        remaining_s = request.context.localize().remaining_s()
        if request.source is DocumentSource.WIKIPEDIA and self._mediawiki:
            return await self._mediawiki.search(
                request.query, limit=request.limit, timeout_s=remaining_s
            )
        if request.source is DocumentSource.SNAPSHOT and self._snapshot:
            return await self._snapshot.search(request.query, limit=request.limit)
        raise SearchFailed(f"the searcher has no source {request.source}")
