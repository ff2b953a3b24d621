"""The replica of the small models that read between hops: answer extractor and question rewriter."""

import asyncio
from collections.abc import Sequence

from crag_core.compact.types import ExtractedAnswer
from crag_core.types import Stage
from deployments.messages import ExtractRequest, RewriteRequest
from deployments.observability.stage_times import working
from deployments.settings import HopReaderSettings


class HopReader:
    """Extracts answers and rewrites sub-questions, by models where configured, else by rules.

    Each call holds all hops of a level, which share forward passes; calls wait for one another, since
    the models belong to one thread at a time.
    """

    def __init__(self, settings: HopReaderSettings) -> None:
        """Loads what is configured; raises SettingsError when a model is missing or of no use."""
        # imported here: the node that builds the application need not load what only a replica uses
        from deployments.backends.reading.hop_models import HopModels

        self._models = HopModels.open(settings)
        self._device = asyncio.Lock()

    async def extract(self, request: ExtractRequest) -> Sequence[ExtractedAnswer | None]:
        """One answer per reading, in order; expired work is refused, also after waiting."""
        ctx = request.context.localize()
        with working(ctx, Stage.EXTRACT) as work:
            async with work.after_waiting_for(self._device):
                ctx.require_time(Stage.EXTRACT)
                return await asyncio.to_thread(self._models.extract, request.readings)

    async def rewrite(self, request: RewriteRequest) -> Sequence[str | None]:
        """One text per rewriting, in order, or `None` where there is no model for it."""
        ctx = request.context.localize()
        with working(ctx, Stage.REWRITE) as work:
            async with work.after_waiting_for(self._device):
                ctx.require_time(Stage.REWRITE)
                return await asyncio.to_thread(self._models.rewrite, request.rewritings)
