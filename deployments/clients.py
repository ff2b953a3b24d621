"""Clients: the core's Protocols over Ray Serve handles.

The only file that calls a handle. Each call is bounded by the request's deadline, and what Ray
raises becomes one of the core's errors here, so that neither core nor API ever sees Ray.
"""

import asyncio
from collections.abc import AsyncGenerator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from ray.exceptions import NodeDiedError, ObjectLostError, RayActorError, WorkerCrashedError
from ray.serve.exceptions import BackPressureError, DeploymentUnavailableError
from ray.serve.handle import DeploymentHandle

from crag_core.context import RequestContext
from crag_core.errors import Overloaded, StageTimedOut, StageUnavailable
from crag_core.protocols import Ask, Evaluation, SearchResult
from crag_core.queries.plan import Sought
from crag_core.types import (
    Answer,
    Completion,
    Document,
    DocumentSource,
    Passage,
    PipelineName,
    Prompt,
    Sampling,
    Stage,
)
from deployments.messages import (
    EvaluateRequest,
    GenerateRequest,
    PipelineRequest,
    ReadRequest,
    RetrieveRequest,
    SearchRequest,
    WireContext,
)

_LOST = (
    DeploymentUnavailableError,
    RayActorError,
    ObjectLostError,
    NodeDiedError,
    WorkerCrashedError,
)
"""What Ray raises when a replica, its worker or its node has gone."""


@dataclass(frozen=True)
class RetrieverClient:
    """A Retriever in another process."""

    handle: DeploymentHandle[Any]

    async def retrieve(self, ctx: RequestContext, query: str, *, limit: int) -> Sequence[Document]:
        """Documents of the corpus, best first."""
        request = RetrieveRequest(WireContext.of(ctx), query, limit)
        documents: Sequence[Document] = await _call(ctx, Stage.RETRIEVE, self.handle.retrieve, request)
        return documents


@dataclass(frozen=True)
class EvaluatorClient:
    """An Evaluator in another process: one handle call per question, never per passage."""

    handle: DeploymentHandle[Any]

    async def evaluate(
        self, ctx: RequestContext, question: str, passages: Sequence[Passage]
    ) -> Evaluation:
        """One entry per passage, in order."""
        request = EvaluateRequest(WireContext.of(ctx), question, tuple(passages))
        evaluation: Evaluation = await _call(ctx, Stage.EVALUATE, self.handle.evaluate, request)
        return evaluation


@dataclass(frozen=True)
class SearcherClient:
    """One source of a Searcher in another process."""

    handle: DeploymentHandle[Any]
    source: DocumentSource

    async def search(self, ctx: RequestContext, sought: Sought, *, limit: int) -> SearchResult:
        """Leads of web pages, best first."""
        request = SearchRequest(WireContext.of(ctx), self.source, sought, limit)
        result: SearchResult = await _call(ctx, Stage.SEARCH, self.handle.search, request)
        return result

    async def read(self, ctx: RequestContext, page: Document) -> Sequence[Document]:
        """The paragraphs of a page."""
        request = ReadRequest(WireContext.of(ctx), self.source, page)
        paragraphs: Sequence[Document] = await _call(ctx, Stage.SEARCH, self.handle.read, request)
        return paragraphs


@dataclass(frozen=True)
class GeneratorClient:
    """A Generator in another process."""

    handle: DeploymentHandle[Any]

    def generate(
        self, ctx: RequestContext, prompt: Prompt, sampling: Sampling
    ) -> AsyncGenerator[Completion]:
        """Pieces of the completion as they come."""
        request = GenerateRequest(WireContext.of(ctx), prompt, sampling)
        return _stream(ctx, Stage.GENERATE, self.handle.generate, request)


@dataclass(frozen=True)
class PipelineClient:
    """One pipeline of a graph in another process."""

    handle: DeploymentHandle[Any]
    pipeline: PipelineName

    def stream(self, ctx: RequestContext, ask: Ask) -> AsyncGenerator[str | Answer]:
        """Pieces of the answer, then the Answer."""
        request = PipelineRequest(WireContext.of(ctx), self.pipeline, ask)
        return _stream(ctx, self.pipeline, self.handle.stream, request)


async def _call(
    ctx: RequestContext, stage: Stage, method: DeploymentHandle[Any], request: object
) -> Any:
    with _translated(stage):
        ctx.require_time(stage)
        async with asyncio.timeout(ctx.remaining_s()):
            response: Any = method.remote(request)
            try:
                return await response
            except asyncio.CancelledError:  # Ray would let the call run on
                response.cancel()
                raise


async def _stream(
    ctx: RequestContext, stage: Stage | PipelineName, method: DeploymentHandle[Any], request: object
) -> AsyncGenerator[Any]:
    ctx.require_time(stage)
    pieces: Any = method.options(stream=True).remote(request)
    try:
        while True:
            with _translated(stage):
                try:
                    piece = await asyncio.wait_for(anext(pieces), max(0.0, ctx.remaining_s()))
                except StopAsyncIteration:
                    return
            yield piece
    finally:  # the reader left early, or time is up: stop the work behind the stream
        pieces.cancel()


@contextmanager
def _translated(stage: Stage | PipelineName) -> Iterator[None]:
    try:
        yield
    except asyncio.CancelledError as error:
        task = asyncio.current_task()
        if task is not None and task.cancelling():
            raise
        # nobody cancelled us: the replica or its node went away under the call
        raise StageUnavailable(f"{stage} was cancelled by its replica") from error
    except TimeoutError as error:
        raise StageTimedOut(f"{stage} did not finish before the deadline") from error
    except BackPressureError as error:
        raise Overloaded(f"too many requests are waiting for {stage}: try again later") from error
    except _LOST as error:
        raise StageUnavailable(f"{stage} has no live replica at the moment") from error
