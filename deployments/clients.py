"""Clients: the core's Protocols over Ray Serve handles.

The only file that calls a handle. Each call is bounded by the request's deadline, and what Ray
raises becomes one of the core's errors here, so that neither core nor API ever sees Ray.
"""

import asyncio
from collections.abc import AsyncGenerator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any

from ray.exceptions import NodeDiedError, ObjectLostError, RayActorError, WorkerCrashedError
from ray.serve.exceptions import BackPressureError, DeploymentUnavailableError
from ray.serve.handle import DeploymentHandle

from crag_core.compact.types import ExtractedAnswer, Reading, Rewriting, ScoredPair
from crag_core.context import RequestContext
from crag_core.errors import Overloaded, StageTimedOut, StageUnavailable
from crag_core.protocols import Ask, Evaluation
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
    ExtractRequest,
    GenerateRequest,
    PipelineRequest,
    RetrievePairsRequest,
    RetrieveRequest,
    RewriteRequest,
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
    """An Evaluator in another process: one handle call per question, never per passage.

    Calls about one question carry one session id: a router that honours it sends them to the replica
    that has the question's scores in its cache.
    """

    handle: DeploymentHandle[Any]

    async def evaluate(
        self, ctx: RequestContext, question: str, passages: Sequence[Passage]
    ) -> Evaluation:
        """One entry per passage, in order."""
        request = EvaluateRequest(WireContext.of(ctx), question, tuple(passages))
        session_id = blake2b(question.encode(errors="replace"), digest_size=8).hexdigest()
        method = self.handle.options(method_name="evaluate", session_id=session_id)
        evaluation: Evaluation = await _call(ctx, Stage.EVALUATE, method, request)
        return evaluation


@dataclass(frozen=True)
class SearcherClient:
    """One source of a Searcher in another process."""

    handle: DeploymentHandle[Any]
    source: DocumentSource

    async def search(self, ctx: RequestContext, query: str, *, limit: int) -> Sequence[Document]:
        """Web documents, best first."""
        request = SearchRequest(WireContext.of(ctx), self.source, query, limit)
        documents: Sequence[Document] = await _call(ctx, Stage.SEARCH, self.handle.search, request)
        return documents


@dataclass(frozen=True)
class AtomicQARetrieverClient:
    """A QARetriever in another process: one handle call per level of a plan."""

    handle: DeploymentHandle[Any]

    async def retrieve_pairs(
        self, ctx: RequestContext, queries: Sequence[str], *, limit: int
    ) -> Sequence[Sequence[ScoredPair]]:
        """Pairs for each query, best first."""
        request = RetrievePairsRequest(WireContext.of(ctx), tuple(queries), limit)
        pairs: Sequence[Sequence[ScoredPair]] = await _call(
            ctx, Stage.RETRIEVE_PAIRS, self.handle.retrieve_pairs, request
        )
        return pairs


@dataclass(frozen=True)
class HopReaderClient:
    """An AnswerExtractor and SubQuestionRewriter in another process."""

    handle: DeploymentHandle[Any]

    async def extract(
        self, ctx: RequestContext, readings: Sequence[Reading]
    ) -> Sequence[ExtractedAnswer | None]:
        """One answer per reading, in order."""
        request = ExtractRequest(WireContext.of(ctx), tuple(readings))
        answers: Sequence[ExtractedAnswer | None] = await _call(
            ctx, Stage.EXTRACT, self.handle.extract, request
        )
        return answers

    async def rewrite(
        self, ctx: RequestContext, rewritings: Sequence[Rewriting]
    ) -> Sequence[str | None]:
        """One text per rewriting, in order."""
        request = RewriteRequest(WireContext.of(ctx), tuple(rewritings))
        texts: Sequence[str | None] = await _call(ctx, Stage.REWRITE, self.handle.rewrite, request)
        return texts


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
