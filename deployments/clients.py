"""Clients: the core's Protocols over Ray Serve handles, each a message and one call (`calls.py`)."""

from collections.abc import AsyncGenerator, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any

from ray.serve.handle import DeploymentHandle

from crag_core.compact.types import ExtractedAnswer, Reading, Rewriting, ScoredPair
from crag_core.context import RequestContext
from crag_core.explaining import ExplainAsk, Explanation, InputPieces
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
    Score,
    Stage,
)
from deployments.calls import call, stream
from deployments.messages import (
    EvaluateRequest,
    ExplainRequest,
    ExtractRequest,
    GenerateRequest,
    MaskedRequest,
    PiecesRequest,
    PipelineRequest,
    ReadRequest,
    RetrievePairsRequest,
    RetrieveRequest,
    RewriteRequest,
    SearchRequest,
    WireContext,
)


@dataclass(frozen=True)
class RetrieverClient:
    """A Retriever in another process."""

    handle: DeploymentHandle[Any]

    async def retrieve(self, ctx: RequestContext, query: str, *, limit: int) -> Sequence[Document]:
        """Documents of the corpus, best first."""
        request = RetrieveRequest(WireContext.of(ctx), query, limit)
        documents: Sequence[Document] = await call(ctx, Stage.RETRIEVE, self.handle.retrieve, request)
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
        evaluation: Evaluation = await call(ctx, Stage.EVALUATE, method, request)
        return evaluation

    async def pieces(self, ctx: RequestContext, question: str, passage: Passage) -> InputPieces:
        """What the evaluator reads of a pair, piece by piece."""
        request = PiecesRequest(WireContext.of(ctx), question, passage)
        read: InputPieces = await call(ctx, Stage.EXPLAIN, self.handle.pieces, request)
        return read

    async def evaluate_masked(
        self, ctx: RequestContext, question: str, passage: Passage, kept: Sequence[int]
    ) -> Sequence[Score]:
        """One score per set of kept pieces, in order."""
        request = MaskedRequest(WireContext.of(ctx), question, passage, tuple(kept))
        scores: Sequence[Score] = await call(ctx, Stage.EXPLAIN, self.handle.evaluate_masked, request)
        return scores


@dataclass(frozen=True)
class SearcherClient:
    """One source of a Searcher in another process."""

    handle: DeploymentHandle[Any]
    source: DocumentSource

    async def search(self, ctx: RequestContext, sought: Sought, *, limit: int) -> SearchResult:
        """Leads of web pages, best first."""
        request = SearchRequest(WireContext.of(ctx), self.source, sought, limit)
        result: SearchResult = await call(ctx, Stage.SEARCH, self.handle.search, request)
        return result

    async def read(self, ctx: RequestContext, page: Document) -> Sequence[Document]:
        """The paragraphs of a page."""
        request = ReadRequest(WireContext.of(ctx), self.source, page)
        paragraphs: Sequence[Document] = await call(ctx, Stage.SEARCH, self.handle.read, request)
        return paragraphs


@dataclass(frozen=True)
class AtomicQARetrieverClient:
    """A QARetriever in another process: one handle call per level of a plan."""

    handle: DeploymentHandle[Any]

    async def retrieve_pairs(
        self, ctx: RequestContext, queries: Sequence[str], *, limit: int
    ) -> Sequence[Sequence[ScoredPair]]:
        """Pairs for each query, best first."""
        request = RetrievePairsRequest(WireContext.of(ctx), tuple(queries), limit)
        pairs: Sequence[Sequence[ScoredPair]] = await call(
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
        answers: Sequence[ExtractedAnswer | None] = await call(
            ctx, Stage.EXTRACT, self.handle.extract, request
        )
        return answers

    async def rewrite(
        self, ctx: RequestContext, rewritings: Sequence[Rewriting]
    ) -> Sequence[str | None]:
        """One text per rewriting, in order."""
        request = RewriteRequest(WireContext.of(ctx), tuple(rewritings))
        texts: Sequence[str | None] = await call(ctx, Stage.REWRITE, self.handle.rewrite, request)
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
        return stream(ctx, Stage.GENERATE, self.handle.generate, request)


@dataclass(frozen=True)
class PipelineClient:
    """One pipeline of a graph in another process."""

    handle: DeploymentHandle[Any]
    pipeline: PipelineName

    def stream(self, ctx: RequestContext, ask: Ask) -> AsyncGenerator[str | Answer]:
        """Pieces of the answer, then the Answer."""
        request = PipelineRequest(WireContext.of(ctx), self.pipeline, ask)
        return stream(ctx, self.pipeline, self.handle.stream, request)


@dataclass(frozen=True)
class ExplainClient:
    """An Explainer in another process."""

    handle: DeploymentHandle[Any]

    async def explain(self, ctx: RequestContext, ask: ExplainAsk) -> Explanation:
        """The explanation of one question and passage."""
        request = ExplainRequest(WireContext.of(ctx), ask)
        explanation: Explanation = await call(ctx, Stage.EXPLAIN, self.handle.explain, request)
        return explanation
