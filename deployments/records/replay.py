"""Replay: the decision of a record made again by the pipeline of today, from the evidence of then."""

from collections.abc import AsyncGenerator, Iterator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Any

from crag_core.baselines import NoRetrieval, Rag
from crag_core.compact.compact import Compact
from crag_core.compact.resolution import Resolver
from crag_core.compact.types import ExtractedAnswer, Reading, Rewriting, ScoredPair
from crag_core.context import RequestContext
from crag_core.crag import Crag
from crag_core.errors import (
    CragError,
    EvaluationFailed,
    GenerationFailed,
    RetrievalFailed,
    SearchFailed,
    SettingsError,
    StageFailed,
)
from crag_core.generation import AnswerWriter
from crag_core.protocols import Evaluation, Pipeline, SearchResult
from crag_core.queries.plan import Sought
from crag_core.settings import SpeculationSettings
from crag_core.types import Answer, Completion, Document, Passage, PipelineName, Prompt, Sampling
from deployments.records.record import Calls, DecisionRecord
from deployments.records.tape import GENERATE, RETRIEVE, evaluate_call, read_call, search_call

_WITHIN_S = 3_600.0


@dataclass(frozen=True, slots=True)
class Difference:
    """What of the answer came out otherwise."""

    what: str
    then: Any
    now: Any


async def differences(record: DecisionRecord) -> Sequence[Difference]:
    """Decide again, and compare; empty when nothing differs. Raises SettingsError as `decided_again`."""
    try:
        now = await decided_again(record)
    except CragError as error:
        return [Difference("the pipeline", "answered", f"{error.code}: {error.message}")]
    then = record.answer
    compared = zip(_decision(then), _decision(now), strict=True)
    return [
        Difference(what, before, after) for (what, before), (_, after) in compared if before != after
    ]


async def decided_again(record: DecisionRecord) -> Answer:
    """The answer of today's pipeline over the recorded stages; raises the errors that it meets.

    Raises SettingsError for a record that lacks what its pipeline needs.
    """
    ctx = RequestContext.starting_now("replay", _WITHIN_S)
    answer: Answer | None = None
    async with aclosing(_pipeline(record).stream(ctx, record.ask)) as pieces:
        async for piece in pieces:
            if isinstance(piece, Answer):
                answer = piece
    assert answer is not None, "a pipeline ends with its answer"
    return answer


def _decision(answer: Answer) -> Iterator[tuple[str, Any]]:
    yield "action", answer.action
    yield "thresholds", dict(answer.trace.thresholds)
    yield "documents", answer.trace.documents
    yield "pages", answer.trace.searched
    yield "hops", answer.trace.hops
    yield "strips", [(it.document_id, it.start, it.end, it.score) for it in answer.citations]
    yield "evidence_quality", answer.evidence_quality
    yield "degraded", answer.degraded
    yield "answer", answer.text


def _pipeline(record: DecisionRecord) -> Pipeline:
    # what is begun ahead decides nothing, and depends on how busy the evaluator was
    settings = record.settings.model_copy(
        update={"speculation": SpeculationSettings(strips=False, search=False)}
    )
    said = _Recorded(record.calls)
    writer = AnswerWriter(
        _Generator(said, iter(record.calls.completed)), _Counter(iter(record.calls.counted))
    )
    match record.answer.pipeline:
        case PipelineName.CRAG:
            searchers = [_Searcher(said, source) for source in _sources(record.calls)]
            return Crag(_Retriever(said), _Evaluator(said), searchers, writer, settings)
        case PipelineName.RAG:
            return Rag(_Retriever(said), writer, settings)
        case PipelineName.NO_RETRIEVAL:
            return NoRetrieval(writer, settings)
        case PipelineName.COMPACT:
            if record.compact is None:
                raise SettingsError(
                    "that record of pipeline compact lacks `compact`, its settings: it has no replay"
                )
            reader = _Reader(said)
            resolver = Resolver(_Pairs(said), reader, reader, record.compact, _Retriever(said))
            return Compact(resolver, writer, record.compact, settings)


def _sources(calls: Calls) -> Sequence[int]:
    """Every source that was asked, also those that failed."""
    failed = [int(it.call.split()[1]) for it in calls.failed if it.call.startswith("search ")]
    return range(1 + max([*failed, *(it.source for it in calls.searched)], default=-1))


@dataclass(frozen=True, slots=True)
class _Recorded:
    """What the stages said, to be looked up."""

    calls: Calls
    errors: Mapping[str, type[CragError]] = field(default_factory=lambda: dict(_by_code(CragError)))

    def raise_if_failed(self, call: str) -> None:
        for failed in self.calls.failed:
            if failed.call == call:
                raise self.errors.get(failed.code, CragError)(failed.message)


def _by_code(kind: type[CragError]) -> Iterator[tuple[str, type[CragError]]]:
    yield kind.code, kind
    for child in kind.__subclasses__():
        yield from _by_code(child)


@dataclass(frozen=True, slots=True)
class _Retriever:
    said: _Recorded

    async def retrieve(self, ctx: RequestContext, query: str, *, limit: int) -> Sequence[Document]:
        self.said.raise_if_failed(RETRIEVE)
        for call in self.said.calls.retrieved:
            if (call.query, call.limit) == (query, limit):
                return call.documents
        raise RetrievalFailed(f"the retriever was not asked then for {limit} documents of {query!r}")


@dataclass(frozen=True, slots=True)
class _Evaluator:
    said: _Recorded

    async def evaluate(
        self, ctx: RequestContext, question: str, passages: Sequence[Passage]
    ) -> Evaluation:
        self.said.raise_if_failed(evaluate_call(passages))
        scored = {
            (call.question, passage): (score, is_truncated)
            for call in self.said.calls.evaluated
            for passage, score, is_truncated in zip(
                call.passages, call.evaluation.scores, call.evaluation.truncated, strict=True
            )
        }
        missing = [passage for passage in passages if (question, passage) not in scored]
        if missing:
            raise EvaluationFailed(f"the evaluator was not asked then for {missing[0].text[:80]!r}")
        then = self.said.calls.evaluated[0].evaluation
        pairs = [scored[question, passage] for passage in passages]
        return Evaluation(
            tuple(score for score, _ in pairs),
            tuple(is_truncated for _, is_truncated in pairs),
            then.thresholds,
            then.strip_min_score,
            then.evaluator_id,
        )


@dataclass(frozen=True, slots=True)
class _Searcher:
    said: _Recorded
    source: int

    async def search(self, ctx: RequestContext, sought: Sought, *, limit: int) -> SearchResult:
        self.said.raise_if_failed(search_call(self.source))
        for call in self.said.calls.searched:
            if (call.source, call.sought, call.limit) == (self.source, sought, limit):
                return call.result
        raise SearchFailed(f"source {self.source} was not searched then for {sought}")

    async def read(self, ctx: RequestContext, page: Document) -> Sequence[Document]:
        self.said.raise_if_failed(read_call(page))
        for call in self.said.calls.read:
            if (call.source, call.page) == (self.source, page):
                return call.paragraphs
        raise SearchFailed(f"page {page.id} was not read then")


@dataclass(frozen=True, slots=True)
class _Pairs:
    said: _Recorded

    async def retrieve_pairs(
        self, ctx: RequestContext, queries: Sequence[str], *, limit: int
    ) -> Sequence[Sequence[ScoredPair]]:
        for call in self.said.calls.pairs:
            if (call.queries, call.limit) == (tuple(queries), limit):
                return call.pairs
        raise RetrievalFailed(f"the base was not asked then for {limit} pairs of {list(queries)}")


@dataclass(frozen=True, slots=True)
class _Reader:
    said: _Recorded

    async def rewrite(
        self, ctx: RequestContext, rewritings: Sequence[Rewriting]
    ) -> Sequence[str | None]:
        for call in self.said.calls.rewritten:
            if call.rewritings == tuple(rewritings):
                return call.texts
        raise StageFailed(f"the rewriter was not asked then for {[it.question for it in rewritings]}")

    async def extract(
        self, ctx: RequestContext, readings: Sequence[Reading]
    ) -> Sequence[ExtractedAnswer | None]:
        for call in self.said.calls.extracted:
            if call.readings == tuple(readings):
                return call.answers
        raise StageFailed(f"the extractor was not asked then for {[it.question for it in readings]}")


@dataclass(frozen=True, slots=True)
class _Generator:
    said: _Recorded
    completions: Iterator[Sequence[Completion]]

    async def generate(
        self, ctx: RequestContext, prompt: Prompt, sampling: Sampling
    ) -> AsyncGenerator[Completion]:
        pieces = next(self.completions, None)
        if pieces is None:  # failures that came before a completion were got over then
            self.said.raise_if_failed(GENERATE)
            raise GenerationFailed("the generator is asked for more completions now than then")
        for piece in pieces:
            yield piece


@dataclass(frozen=True, slots=True)
class _Counter:
    tokens: Iterator[int]

    def count(self, prompt: Prompt) -> int:
        counted = next(self.tokens, None)
        if counted is None:
            raise GenerationFailed("more prompts are counted now than then")
        return counted
