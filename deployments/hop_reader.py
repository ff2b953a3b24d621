"""The replica of the small models that read between hops: answer extractor and question rewriter."""

import asyncio
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from crag_core.compact.types import ExtractedAnswer
from crag_core.types import Stage
from deployments.messages import ExtractRequest, Message, RewriteRequest
from deployments.observability.stage_times import working
from deployments.settings import HopReaderSettings

Asked = TypeVar("Asked")
Read = TypeVar("Read")


class HopReader:
    """Extracts answers and rewrites sub-questions, by models where configured, else by rules.

    Each call holds all hops of a level, which share forward passes; calls wait for one another, since
    the models belong to one thread.
    """

    def __init__(self, settings: HopReaderSettings) -> None:
        """Loads what is configured; raises SettingsError when a model is missing or of no use."""
        # imported here: the node that builds the application need not load what only a replica uses
        from deployments.backends.reading.hop_models import HopModels

        self._models = HopModels.open(settings)
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="read")

    async def extract(self, request: ExtractRequest) -> Sequence[ExtractedAnswer | None]:
        """One answer per reading, in order; expired work is refused, also after waiting."""
        return await self._read(request, Stage.EXTRACT, self._models.extract, request.readings)

    async def rewrite(self, request: RewriteRequest) -> Sequence[str | None]:
        """One text per rewriting, in order, or `None` where there is no model for it."""
        return await self._read(request, Stage.REWRITE, self._models.rewrite, request.rewritings)

    async def _read(
        self, request: Message, stage: Stage, read: Callable[[Asked], Read], asked: Asked
    ) -> Read:
        """What a model reads, on the one thread.

        A call that is cancelled leaves the thread to end what it has begun, and only then to others.
        """
        ctx = request.context.localize()
        with working(ctx, stage) as work:
            came_s = time.perf_counter()

            def begin() -> Read:
                work.waited_s = time.perf_counter() - came_s
                ctx.require_time(stage)
                return read(asked)

            return await asyncio.get_running_loop().run_in_executor(self._thread, begin)
