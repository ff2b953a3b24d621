"""The generator's replica."""

from collections.abc import AsyncGenerator
from contextlib import aclosing

from crag_core.context import RequestContext
from crag_core.protocols import Evaluator
from crag_core.types import Completion, Passage
from deployments.messages import GenerateRequest
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

        self._engine = VllmEngine(settings)

    async def generate(self, request: GenerateRequest) -> AsyncGenerator[Completion]:
        """Pieces of the completion."""
        ctx = request.context.localize()
        async with aclosing(self._engine.generate(ctx, request.prompt, request.sampling)) as pieces:
            async for piece in pieces:
                yield piece

    def shutdown(self) -> None:
        """Stop the engine, in a process that goes on."""
        self._engine.shutdown()

    async def record_autoscaling_stats(self) -> dict[str, float]:
        """What GeneratorPolicy decides by."""
        return {"fill": self._engine.fill}

    async def check_health(self) -> None:
        """Raises StageUnavailable when the engine is dead, so that Serve replaces the replica."""
        await self._engine.check_health()
