"""Recording: the stages of one question, each telling the tape what it was asked and answered."""

from collections.abc import AsyncGenerator, Iterator, Sequence
from contextlib import aclosing, contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

from crag_core.compact.protocols import AnswerExtractor, QARetriever, SubQuestionRewriter
from crag_core.compact.resolution import Resolver
from crag_core.compact.settings import CompactSettings
from crag_core.compact.types import ExtractedAnswer, Reading, Rewriting, ScoredPair
from crag_core.context import RequestContext
from crag_core.errors import CragError
from crag_core.protocols import (
    Ask,
    Evaluation,
    Evaluator,
    Generator,
    Pipeline,
    Retriever,
    Searcher,
    SearchResult,
    TokenCounter,
)
from crag_core.queries.plan import Sought
from crag_core.settings import CragSettings
from crag_core.types import Answer, Completion, Document, Passage, Prompt, Sampling
from deployments.records.record import (
    Calls,
    DecisionRecord,
    Evaluated,
    Extracted,
    Failed,
    Models,
    PageRead,
    PairsFound,
    Retrieved,
    Rewritten,
    Searched,
)

RETRIEVE, GENERATE = "retrieve", "generate"


def evaluate_call(passages: Sequence[Passage]) -> str:
    """The key of an evaluation, by how it fails; those of one question differ in their passages."""
    return f"evaluate {len(passages)} from {passages[0].text[:80] if passages else ''}"


def search_call(source: int) -> str:
    """The key of a search."""
    return f"search {source}"


def read_call(page: Document) -> str:
    """The key of a page read in full."""
    return f"read {page.id}"


@dataclass(slots=True)
class Tape:
    """What the stages of one question say, call by call."""

    retrieved: list[Retrieved] = field(default_factory=list)
    evaluated: list[Evaluated] = field(default_factory=list)
    searched: list[Searched] = field(default_factory=list)
    read: list[PageRead] = field(default_factory=list)
    counted: list[int] = field(default_factory=list)
    completed: list[tuple[Completion, ...]] = field(default_factory=list)
    failed: list[Failed] = field(default_factory=list)
    pairs: list[PairsFound] = field(default_factory=list)
    rewritten: list[Rewritten] = field(default_factory=list)
    extracted: list[Extracted] = field(default_factory=list)

    def around(self, pipeline: Pipeline) -> Pipeline:
        """The pipeline, whose stages are recorded; what it has learned of its stages it keeps."""
        return with_stages(
            pipeline,
            retriever=lambda it: _TapedRetriever(self, it),
            evaluator=lambda it: _TapedEvaluator(self, it),
            searchers=lambda them: [_TapedSearcher(self, place, it) for place, it in enumerate(them)],
            generator=lambda it: _TapedGenerator(self, it),
            counter=lambda it: _TapedCounter(self, it),
            resolver=self._around_resolver,
        )

    def record(
        self,
        ask: Ask,
        settings: CragSettings,
        models: Models,
        answer: Answer,
        compact: CompactSettings | None = None,
    ) -> DecisionRecord:
        """The record of the finished answer."""
        calls = Calls(
            retrieved=tuple(self.retrieved),
            evaluated=tuple(self.evaluated),
            searched=tuple(self.searched),
            read=tuple(self.read),
            counted=tuple(self.counted),
            completed=tuple(self.completed),
            failed=tuple(self.failed),
            pairs=tuple(self.pairs),
            rewritten=tuple(self.rewritten),
            extracted=tuple(self.extracted),
        )
        named = replace(models, evaluator_id=answer.trace.evaluator_id)
        return DecisionRecord(ask, settings, named, calls, answer, compact)

    def _around_resolver(self, resolver: Resolver) -> Resolver:
        return replace(
            resolver,
            pairs=_TapedPairs(self, resolver.pairs),
            rewriter=_TapedRewriter(self, resolver.rewriter),
            extractor=_TapedExtractor(self, resolver.extractor),
            passages=resolver.passages and _TapedRetriever(self, resolver.passages),
        )

    @contextmanager
    def watch(self, call: str) -> Iterator[None]:
        """Note the error that the body ends with."""
        try:
            yield
        except CragError as error:
            self.failed.append(Failed(call, error.code, error.message))
            raise


def with_stages(pipeline: Any, *, generator: Any, counter: Any, **others: Any) -> Pipeline:
    """The pipeline with other stages, each made of the one it has; it need not have all of them."""
    writer = pipeline.writer
    had = {name: make for name, make in others.items() if hasattr(pipeline, name)}
    stages = {name: make(getattr(pipeline, name)) for name, make in had.items()}
    changed: Pipeline = replace(
        pipeline,
        writer=replace(writer, generator=generator(writer.generator), counter=counter(writer.counter)),
        **stages,
    )
    return changed


@dataclass(frozen=True, slots=True)
class _TapedRetriever:
    tape: Tape
    stage: Retriever

    async def retrieve(self, ctx: RequestContext, query: str, *, limit: int) -> Sequence[Document]:
        with self.tape.watch(RETRIEVE):
            documents = await self.stage.retrieve(ctx, query, limit=limit)
        self.tape.retrieved.append(Retrieved(query, limit, tuple(documents)))
        return documents


@dataclass(frozen=True, slots=True)
class _TapedEvaluator:
    tape: Tape
    stage: Evaluator

    async def evaluate(
        self, ctx: RequestContext, question: str, passages: Sequence[Passage]
    ) -> Evaluation:
        with self.tape.watch(evaluate_call(passages)):
            evaluation = await self.stage.evaluate(ctx, question, passages)
        self.tape.evaluated.append(Evaluated(question, tuple(passages), evaluation))
        return evaluation


@dataclass(frozen=True, slots=True)
class _TapedSearcher:
    tape: Tape
    source: int
    stage: Searcher

    async def search(self, ctx: RequestContext, sought: Sought, *, limit: int) -> SearchResult:
        with self.tape.watch(search_call(self.source)):
            result = await self.stage.search(ctx, sought, limit=limit)
        self.tape.searched.append(Searched(self.source, sought, limit, result))
        return result

    async def read(self, ctx: RequestContext, page: Document) -> Sequence[Document]:
        with self.tape.watch(read_call(page)):
            paragraphs = await self.stage.read(ctx, page)
        self.tape.read.append(PageRead(self.source, page, tuple(paragraphs)))
        return paragraphs


@dataclass(frozen=True, slots=True)
class _TapedGenerator:
    tape: Tape
    stage: Generator

    async def generate(
        self, ctx: RequestContext, prompt: Prompt, sampling: Sampling
    ) -> AsyncGenerator[Completion]:
        pieces: list[Completion] = []
        with self.tape.watch(GENERATE):
            async with aclosing(self.stage.generate(ctx, prompt, sampling)) as completion:
                async for piece in completion:
                    pieces.append(piece)
                    if piece.finish_reason is not None:
                        self.tape.completed.append(tuple(pieces))
                    yield piece


@dataclass(frozen=True, slots=True)
class _TapedCounter:
    tape: Tape
    stage: TokenCounter

    def count(self, prompt: Prompt) -> int:
        tokens = self.stage.count(prompt)
        self.tape.counted.append(tokens)
        return tokens


@dataclass(frozen=True, slots=True)
class _TapedPairs:
    # a call of this stage, or the two below, that fails ends the answer: then there is no record either
    tape: Tape
    stage: QARetriever

    async def retrieve_pairs(
        self, ctx: RequestContext, queries: Sequence[str], *, limit: int
    ) -> Sequence[Sequence[ScoredPair]]:
        found = await self.stage.retrieve_pairs(ctx, queries, limit=limit)
        self.tape.pairs.append(PairsFound(tuple(queries), limit, tuple(map(tuple, found))))
        return found


@dataclass(frozen=True, slots=True)
class _TapedRewriter:
    tape: Tape
    stage: SubQuestionRewriter

    async def rewrite(
        self, ctx: RequestContext, rewritings: Sequence[Rewriting]
    ) -> Sequence[str | None]:
        texts = await self.stage.rewrite(ctx, rewritings)
        self.tape.rewritten.append(Rewritten(tuple(rewritings), tuple(texts)))
        return texts


@dataclass(frozen=True, slots=True)
class _TapedExtractor:
    tape: Tape
    stage: AnswerExtractor

    async def extract(
        self, ctx: RequestContext, readings: Sequence[Reading]
    ) -> Sequence[ExtractedAnswer | None]:
        answers = await self.stage.extract(ctx, readings)
        self.tape.extracted.append(Extracted(tuple(readings), tuple(answers)))
        return answers
