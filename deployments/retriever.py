"""The retriever's replica."""

from collections.abc import Sequence

from crag_core.types import Document, Stage
from deployments.messages import RetrieveRequest
from deployments.observability.stage_times import working
from deployments.settings import RetrieverSettings


class Retriever:
    """Searches one passage index; every replica opens it by itself."""

    def __init__(self, settings: RetrieverSettings) -> None:
        """Opens encoder and index; raises SettingsError when they do not fit together."""
        # imported here: the node that builds the application need not load what only a replica uses
        from deployments.backends.dense_encoder import DenseEncoder
        from deployments.backends.indexes.passage_index import PassageIndex

        self._settings = settings
        self._index = PassageIndex.open(settings.index, DenseEncoder(settings.encoder))

    async def retrieve(self, request: RetrieveRequest) -> Sequence[Document]:
        """Documents, best first; expired work is refused."""
        ctx = request.context.localize()
        ctx.require_time(Stage.RETRIEVE)
        with working(ctx, Stage.RETRIEVE):
            return await self._index.search(
                request.query,
                limit=request.limit,
                candidates=self._settings.candidates,
                rrf_k=self._settings.rrf_k,
            )
