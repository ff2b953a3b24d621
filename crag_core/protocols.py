"""The stages: each a Protocol with one method, and the values that only they exchange."""

from collections.abc import AsyncGenerator, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from crag_core.context import RequestContext
from crag_core.queries.plan import Sought
from crag_core.settings import ActionThresholds, AnswerOptions, SamplingOptions
from crag_core.types import (
    Answer,
    Completion,
    Document,
    FoundPage,
    Passage,
    Prompt,
    Question,
    Reason,
    Sampling,
    Score,
    SearchQuery,
)


@dataclass(frozen=True, slots=True)
class Evaluation:
    """One entry per passage, in the order given.

    A score of `None` marks an empty passage: it was not sent to the model and decides nothing.
    Thresholds arrive with every evaluation, so that a rolling change of the evaluator never mixes
    the scales of two checkpoints. `queue_s` is how long the first of the passages waited for the model,
    in seconds; 0 when no passage had to.
    """

    scores: tuple[Score | None, ...]
    truncated: tuple[bool, ...]
    thresholds: ActionThresholds
    strip_min_score: float
    evaluator_id: str
    queue_s: float = 0.0


@dataclass(frozen=True, slots=True)
class Ask:
    """One question with everything its caller said about it; `documents` replace retrieval."""

    question: Question
    documents: tuple[Document, ...] | None = None
    options: AnswerOptions = field(default_factory=AnswerOptions)
    sampling: SamplingOptions = field(default_factory=SamplingOptions)


class Retriever(Protocol):
    """Documents of the static corpus, best first, at most `limit`; raises RetrievalFailed."""

    async def retrieve(self, ctx: RequestContext, query: str, *, limit: int) -> Sequence[Document]: ...


class Evaluator(Protocol):
    """One entry per passage, in the order given, never fewer; a failure raises EvaluationFailed."""

    async def evaluate(
        self, ctx: RequestContext, question: str, passages: Sequence[Passage]
    ) -> Evaluation: ...


@dataclass(frozen=True, slots=True)
class SearchResult:
    """What one source of a search found, the queries it was planned with, and the requests it took.

    `pages` are leads, best first. Those with strategy `disambiguation` share a name: which of them is
    meant is for the core to choose. `cut_short` says why a search ended after it had found something.
    """

    pages: tuple[FoundPage, ...] = ()
    queries: tuple[SearchQuery, ...] = ()
    requests: int = 0
    cut_short: Reason | None = None


class Searcher(Protocol):
    """One source of web pages; an empty result is an answer, an outage raises SearchFailed."""

    async def search(self, ctx: RequestContext, sought: Sought, *, limit: int) -> SearchResult:
        """The leads of at most `limit` pages, and every page that shares an ambiguous name."""
        ...

    async def read(self, ctx: RequestContext, page: Document) -> Sequence[Document]:
        """The paragraphs of a page found before, in full and in order; empty where there are no more."""
        ...


class Generator(Protocol):
    """The pieces of one completion, in order; the last carries finish reason and usage.

    Raises GenerationFailed, or PromptTooLong before the first piece. Closing the iterator early
    aborts the completion.
    """

    def generate(
        self, ctx: RequestContext, prompt: Prompt, sampling: Sampling
    ) -> AsyncGenerator[Completion]: ...


class TokenCounter(Protocol):
    """Counts a prompt's tokens as the generator will, its chat template included."""

    def count(self, prompt: Prompt) -> int: ...


class Pipeline(Protocol):
    """Pieces of the answer's text as they come, then the finished Answer, last and exactly once.

    The pieces joined are the Answer's text. Errors are raised, before or between the pieces.
    """

    def stream(self, ctx: RequestContext, ask: Ask) -> AsyncGenerator[str | Answer]: ...
