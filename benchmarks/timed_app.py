"""The application with an engine that only takes its time, for what two real ones do not fit.

Evaluator, retriever, search, graph and ingress are the real ones.
"""

import asyncio
from collections.abc import AsyncGenerator
from typing import Any

from ray.serve import Application

from crag_core.types import Completion, Stage, TokenUsage
from deployments.app import Leaves, wired
from deployments.messages import GenerateRequest
from deployments.settings import AppSettings, GeneratorSettings

_WORDS = ["It", "was", "built", "in", "1850", "by", "a", "family", "of", "engineers", "[1]."]
_FIRST_WORD_S = 0.1
_BETWEEN_WORDS_S = 0.02
_SLOW_START_S = 20.0


class Generator:
    """Writes one sentence word by word, `max_num_seqs` of them at a time; the others wait."""

    starts_in_s = 0.0

    async def __init__(  # type: ignore[misc]  # Serve awaits an asynchronous constructor
        self, settings: GeneratorSettings, evaluator: object
    ) -> None:
        """Takes as long as an engine that loads weights."""
        self._max_num_seqs = settings.max_num_seqs
        self._slots = asyncio.Semaphore(settings.max_num_seqs)
        self._held = 0
        await asyncio.sleep(self.starts_in_s)

    async def generate(self, request: GenerateRequest) -> AsyncGenerator[Completion]:
        """The sentence."""
        request.context.localize().require_time(Stage.GENERATE)
        words = _WORDS[: request.sampling.max_new_tokens]
        self._held += 1
        try:
            async with self._slots:
                await asyncio.sleep(_FIRST_WORD_S)
                for count, word in enumerate(words, 1):
                    is_last = count == len(words)
                    usage = TokenUsage(100, count) if is_last else None
                    yield Completion(f"{word} ", "stop" if is_last else None, usage)
                    await asyncio.sleep(_BETWEEN_WORDS_S)
        finally:
            self._held -= 1

    async def record_autoscaling_stats(self) -> dict[str, float]:
        """As the real generator's."""
        return {"fill": self._held / self._max_num_seqs}


class SlowGenerator(Generator):
    """One whose replicas take long to start."""

    starts_in_s = _SLOW_START_S


SlowGenerator.__name__ = Generator.__name__  # a deployment has the name of its class


def build_app(args: dict[str, Any]) -> Application:
    """The application for the `args:` of a Serve config file, its engine timed."""
    return _with(Generator, args)


def build_slow_app(args: dict[str, Any]) -> Application:
    """The same with an engine that starts slowly."""
    return _with(SlowGenerator, args)


def _with(generator: type, args: dict[str, Any]) -> Application:
    application: Application = wired(AppSettings.model_validate(args), Leaves(generator=generator))
    return application
