"""The generator's replica."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing

from crag_core.context import RequestContext, until_deadline
from crag_core.errors import StageTimedOut, StageUnavailable
from crag_core.protocols import Evaluator
from crag_core.types import Completion, Passage, Stage
from deployments.messages import GenerateRequest
from deployments.observability.engine_stats import engine_stat_loggers
from deployments.observability.meter import meter
from deployments.observability.metrics import generator as metrics
from deployments.observability.stage_times import working
from deployments.serve_state import end_replica
from deployments.settings import GeneratorSettings

_RESIDENT_WITHIN_S = 600.0


class Generator:
    """Completes prompts with a chat model in vLLM; a cancelled call aborts its completion."""

    async def __init__(  # type: ignore[misc]  # Serve awaits an asynchronous constructor
        self, settings: GeneratorSettings, evaluator: Evaluator
    ) -> None:
        """Starts the engine; on a shared GPU only once the evaluator's weights are resident.

        vLLM measures free memory while it starts, so the order must not be left to chance.
        """
        if settings.wait_for_evaluator:
            ctx = RequestContext.starting_now("generator-start", _RESIDENT_WITHIN_S)
            await evaluator.evaluate(ctx, "Is the evaluator resident?", [Passage("It is.")])
        # imported here: the node that builds the application need not load what only a replica uses
        from deployments.backends.vllm_engine import VllmEngine

        self._engine = VllmEngine(settings, engine_stat_loggers())

        self._in_flight = 0

    async def generate(self, request: GenerateRequest) -> AsyncGenerator[Completion]:
        """Pieces of the completion; expired work is refused, and a completion ends at its deadline."""
        ctx = request.context.localize()
        ctx.require_time(Stage.GENERATE)
        written, is_finished = 0, False
        self._count(1)
        try:
            with working(ctx, Stage.GENERATE):
                pieces = self._engine.generate(ctx, request.prompt, request.sampling)
                async with aclosing(until_deadline(ctx, Stage.GENERATE, pieces)) as timely:
                    async for piece in timely:
                        written += 1
                        is_finished = piece.finish_reason is not None
                        yield piece
        except StageUnavailable:
            end_replica()  # a dead engine fails at once, so that it would draw every retry to itself
            raise
        except (asyncio.CancelledError, GeneratorExit, StageTimedOut):
            if not is_finished:
                meter().count(metrics.ABORTED)
                meter().count(metrics.SAVED_TOKENS, request.sampling.max_new_tokens - written)
            raise
        finally:
            self._count(-1)

    def _count(self, change: int) -> None:
        self._in_flight += change
        meter().show(metrics.IN_FLIGHT, self._in_flight)

    def shutdown(self) -> None:
        """Stop the engine, in a process that goes on."""
        self._engine.shutdown()

    async def record_autoscaling_stats(self) -> dict[str, float]:
        """What GeneratorPolicy decides by."""
        return {"fill": self._engine.fill}

    async def check_health(self) -> None:
        """Raises StageUnavailable when the engine is dead, so that Serve replaces the replica."""
        await self._engine.check_health()
