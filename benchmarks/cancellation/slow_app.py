"""The application over leaves that take their time where a question says so, and note what befalls them.

Ingress, graph, clients and Ray's proxy are the real ones: what is measured is the way of a cancellation.
"""

import asyncio
import os
import time
from collections.abc import AsyncGenerator, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from ray.serve import Application

from benchmarks.overhead import instant_app
from crag_core.protocols import Evaluation, SearchResult
from crag_core.types import Completion, Document, TokenUsage
from deployments.app import Leaves, wired
from deployments.messages import (
    EvaluateRequest,
    GenerateRequest,
    RetrieveRequest,
    SearchRequest,
    WireContext,
)
from deployments.settings import AppSettings

NOTES = "CRAG_CANCELLATION_NOTES"
"""The environment variable with the file that the leaves write to."""

BEGUN, ENDED, CANCELLED = "begun", "ended", "cancelled"
_LONG_S = 60.0


@contextmanager
def noted(moment: str, context: WireContext) -> Iterator[None]:
    """Notes when it begins, and when and how it ends; the clock is that of the whole machine."""
    _note(moment, BEGUN, context)
    try:
        yield
    except (asyncio.CancelledError, GeneratorExit):
        _note(moment, CANCELLED, context)
        raise
    _note(moment, ENDED, context)


def _note(moment: str, event: str, context: WireContext) -> None:
    line = f"{time.monotonic()} {moment} {event} {context.request_id}\n"
    notes = os.open(os.environ[NOTES], os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    os.write(notes, line.encode())
    os.close(notes)


async def _wait_where(moment: str, text: str) -> None:
    if moment in text.split():
        await asyncio.sleep(_LONG_S)


class Retriever(instant_app.Retriever):
    """Retrieves slowly where the question says `retrieve`."""

    async def retrieve(self, request: RetrieveRequest) -> Sequence[Document]:
        """As the instant one."""
        with noted("retrieve", request.context):
            await _wait_where("retrieve", request.query)
            return await super().retrieve(request)


class Evaluator(instant_app.Evaluator):
    """Scores slowly where the question says `evaluate`."""

    async def evaluate(self, request: EvaluateRequest) -> Evaluation:
        """As the instant one."""
        with noted("evaluate", request.context):
            await _wait_where("evaluate", request.question)
            return await super().evaluate(request)


class Searcher(instant_app.Searcher):
    """Searches slowly where the question says `search`."""

    async def search(self, request: SearchRequest) -> SearchResult:
        """As the instant one."""
        with noted("search", request.context):
            await _wait_where("search", request.sought.text)
            return await super().search(request)


class Generator(instant_app.Generator):
    """One completion at a time; slow before its first token, or after it, where the question says so."""

    def __init__(self, settings: object, evaluator: object) -> None:
        """Starts nothing."""
        self._slot = asyncio.Semaphore(1)

    async def generate(self, request: GenerateRequest) -> AsyncGenerator[Completion]:
        """A few words."""
        text = request.prompt.messages[-1].content
        with noted("queue", request.context):
            await self._slot.acquire()
        try:
            with noted("first_token", request.context):
                await _wait_where("first_token", text)
            yield Completion("It ")
            with noted("stream", request.context):
                await _wait_where("stream", text)
                yield Completion("was built in 1850 [1].", "stop", TokenUsage(100, 8))
        finally:
            self._slot.release()


def build_app(args: dict[str, Any]) -> Application:
    """The application for the `args:` of a Serve config file, its leaves slow where asked."""
    leaves = Leaves(Retriever, Evaluator, Searcher, Generator)
    application: Application = wired(AppSettings.model_validate(args), leaves)
    return application
