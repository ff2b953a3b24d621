"""The replica of the knowledge base of atomic pairs."""

from collections.abc import Sequence

from crag_core.compact.types import ScoredPair
from crag_core.types import Stage
from deployments.messages import RetrievePairsRequest
from deployments.observability.stage_times import working
from deployments.settings import AtomicQASettings


class AtomicQARetriever:
    """Searches one base of atomic pairs, all hops of a level in one call."""

    def __init__(self, settings: AtomicQASettings) -> None:
        """Opens encoder and base; raises SettingsError when they do not fit together."""
        # imported here: the node that builds the application need not load what only a replica uses
        from deployments.backends.dense_encoder import DenseEncoder
        from deployments.backends.indexes.atomic_qa_index import AtomicQAIndex

        self._settings = settings
        self._index = AtomicQAIndex.open(settings.index, DenseEncoder(settings.encoder))

    async def retrieve_pairs(self, request: RetrievePairsRequest) -> Sequence[Sequence[ScoredPair]]:
        """Pairs for each query, best first; expired work is refused."""
        ctx = request.context.localize()
        ctx.require_time(Stage.RETRIEVE_PAIRS)
        with working(ctx, Stage.RETRIEVE_PAIRS):
            return await self._index.search(
                request.queries,
                limit=request.limit,
                candidates=self._settings.candidates,
                rrf_k=self._settings.rrf_k,
            )
