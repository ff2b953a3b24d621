"""Fakes of the stages: dataclasses that keep the core's Protocols, with behaviour you can read."""

import asyncio
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from dataclasses import dataclass, field

from crag_core.context import Lane, RequestContext
from crag_core.protocols import Ask, Evaluation, SearchResult
from crag_core.queries.plan import Sought
from crag_core.settings import ActionThresholds
from crag_core.types import (
    Answer,
    Completion,
    Document,
    FoundPage,
    Passage,
    Prompt,
    Reason,
    Sampling,
    Score,
    SearchQuery,
    Strategy,
    TokenUsage,
)
from deployments.admission.gate import Refusal
from deployments.admission.load import Load

THRESHOLDS = ActionThresholds(upper=0.5, lower=-0.5)


def context(remaining_s: float = 60.0) -> RequestContext:
    """A request's context with plenty of time."""
    return RequestContext.starting_now("request-1", remaining_s)


@dataclass
class FakeRetriever:
    """Returns its documents, the first `limit` of them."""

    documents: Sequence[Document] = ()
    error: Exception | None = None
    delay_s: float = 0.0
    queries: list[str] = field(default_factory=list)

    async def retrieve(self, ctx: RequestContext, query: str, *, limit: int) -> Sequence[Document]:
        self.queries.append(query)
        await asyncio.sleep(self.delay_s)
        if self.error:
            raise self.error
        return self.documents[:limit]


@dataclass
class FakeEvaluator:
    """Scores a passage by its text, or by a function of it; an empty passage has no score.

    An error is raised from call number `failing_from` on; the first call takes `delay_of_first_s`.
    """

    scores: Mapping[str, Score] | Callable[[str], Score] = field(default_factory=dict)
    default: Score = 0.0
    thresholds: ActionThresholds = THRESHOLDS
    strip_min_score: Score = -1.0
    error: Exception | None = None
    failing_from: int = 1
    hang: bool = False
    delay_of_first_s: float = 0.0
    queue_s: float = 0.0
    calls: list[tuple[str, tuple[Passage, ...]]] = field(default_factory=list)
    contexts: list[RequestContext] = field(default_factory=list)

    async def evaluate(
        self, ctx: RequestContext, question: str, passages: Sequence[Passage]
    ) -> Evaluation:
        self.calls.append((question, tuple(passages)))
        self.contexts.append(ctx)
        if self.hang:
            await asyncio.Event().wait()
        if self.delay_of_first_s and len(self.calls) == 1:
            await asyncio.sleep(self.delay_of_first_s)
        if self.error and len(self.calls) >= self.failing_from:
            raise self.error
        return Evaluation(
            scores=tuple(self._score(passage.text) for passage in passages),
            truncated=(False,) * len(passages),
            thresholds=self.thresholds,
            strip_min_score=self.strip_min_score,
            evaluator_id="fake",
            queue_s=self.queue_s,
        )

    def _score(self, text: str) -> Score | None:
        if not text.strip():
            return None
        if callable(self.scores):
            return self.scores(text)
        return self.scores.get(text, self.default)


@dataclass
class FakeSearcher:
    """Finds its pages, all by one strategy, or those found by when it was cut short.

    Reading a page gives its paragraphs.

    Hanging, it counts how often it was cancelled.
    """

    pages: Sequence[Document] = ()
    error: Exception | None = None
    strategy: Strategy = Strategy.DIRECT
    paragraphs: Sequence[Document] = ()
    read_error: Exception | None = None
    cut_short: Reason | None = None
    hang: bool = False
    cancelled: int = 0
    sought: list[Sought] = field(default_factory=list)
    pages_read: list[str] = field(default_factory=list)

    async def search(self, ctx: RequestContext, sought: Sought, *, limit: int) -> SearchResult:
        self.sought.append(sought)
        if self.hang:
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                self.cancelled += 1
                raise
        if self.error:
            raise self.error
        query = SearchQuery("Feilden", Strategy.DIRECT, "Feilden", "X's P")
        found = tuple(FoundPage(page, query, self.strategy) for page in self.pages)
        if self.strategy is not Strategy.DISAMBIGUATION:
            found = found[:limit]
        return SearchResult(found, (query,), requests=1, cut_short=self.cut_short)

    async def read(self, ctx: RequestContext, page: Document) -> Sequence[Document]:
        self.pages_read.append(page.id)
        if self.read_error:
            raise self.read_error
        return self.paragraphs


@dataclass
class FakeGenerator:
    """Says its pieces, then ends; with an error it fails after them, and hanging it never ends."""

    pieces: Sequence[str] = ("A politician", " from", " Blackburn.")
    finish_reason: str | None = "stop"
    error: Exception | None = None
    hang: bool = False
    prompts: list[Prompt] = field(default_factory=list)
    samplings: list[Sampling] = field(default_factory=list)
    waiting: asyncio.Event = field(default_factory=asyncio.Event)
    closed: int = 0

    async def generate(
        self, ctx: RequestContext, prompt: Prompt, sampling: Sampling
    ) -> AsyncGenerator[Completion]:
        self.prompts.append(prompt)
        self.samplings.append(sampling)
        try:
            for piece in self.pieces:
                yield Completion(piece)
            if self.hang:
                self.waiting.set()
                await asyncio.Event().wait()
            if self.error:
                raise self.error
            usage = TokenUsage(FakeTokenCounter().count(prompt), len(self.pieces))
            if self.finish_reason:
                yield Completion("", self.finish_reason, usage)
        finally:
            self.closed += 1


@dataclass(frozen=True)
class FakeTokenCounter:
    """Counts words."""

    def count(self, prompt: Prompt) -> int:
        return sum(len(message.content.split()) for message in prompt.messages)


@dataclass
class FakePipeline:
    """Streams what it is given, and remembers what it was asked; with an error it fails at the end."""

    pieces: Sequence[str | Answer] = ()
    error: Exception | None = None
    hang: bool = False
    asks: list[Ask] = field(default_factory=list)
    contexts: list[RequestContext] = field(default_factory=list)

    async def stream(self, ctx: RequestContext, ask: Ask) -> AsyncGenerator[str | Answer]:
        self.contexts.append(ctx)
        self.asks.append(ask)
        for piece in self.pieces:
            yield piece
        if self.hang:
            await asyncio.Event().wait()
        if self.error:
            raise self.error


@dataclass
class FakeAdmissionObserver:
    """Remembers who was turned away, and what the gate saw last."""

    refusals: list[tuple[Refusal, Lane, float]] = field(default_factory=list)
    waits_s: Mapping[str, float] = field(default_factory=dict)

    def refused(self, why: Refusal, lane: Lane, retry_after_s: float) -> None:
        self.refusals.append((why, lane, retry_after_s))

    def sees(self, load: Load, waits_s: Mapping[str, float]) -> None:
        self.waits_s = waits_s
