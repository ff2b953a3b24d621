"""What travels between processes: one message per handle call, the request's context in each.

A deadline crosses as the seconds that remain; the receiver's first line makes it local again.
"""

from dataclasses import dataclass, replace
from typing import Self

from crag_core.compact.types import Reading, Rewriting
from crag_core.context import Lane, RequestContext
from crag_core.explaining import ExplainAsk
from crag_core.protocols import Ask
from crag_core.queries.plan import Sought
from crag_core.types import Document, DocumentSource, Passage, PipelineName, Prompt, Sampling

_MARGIN_S = 0.02


@dataclass(frozen=True, slots=True)
class WireContext:
    """A RequestContext on its way to another process."""

    request_id: str
    remaining_s: float
    lane: Lane
    traceparent: str | None

    @classmethod
    def of(cls, ctx: RequestContext) -> Self:
        """The context as it leaves this process.

        The receiver's deadline comes a little before ours, so that its error, which names the stage
        that was slow, is the one that reaches the client.
        """
        return cls(ctx.request_id, ctx.remaining_s() - _MARGIN_S, ctx.lane, ctx.traceparent)

    def localize(self) -> RequestContext:
        """The context with a deadline on this process's clock."""
        return RequestContext.starting_now(
            self.request_id, self.remaining_s, self.lane, self.traceparent
        )


@dataclass(frozen=True, slots=True)
class Message:
    """What every message carries."""

    context: WireContext

    def sent_again(self, ctx: RequestContext) -> Self:
        """The same message with the time that is left now."""
        return replace(self, context=WireContext.of(ctx))


@dataclass(frozen=True, slots=True)
class RetrieveRequest(Message):
    """To the retriever."""

    query: str
    limit: int


@dataclass(frozen=True, slots=True)
class EvaluateRequest(Message):
    """To the evaluator: one question with all its passages."""

    question: str
    passages: tuple[Passage, ...]


@dataclass(frozen=True, slots=True)
class PiecesRequest(Message):
    """To the evaluator: what it reads of one question and passage."""

    question: str
    passage: Passage


@dataclass(frozen=True, slots=True)
class MaskedRequest(Message):
    """To the evaluator: one question and passage, and which pieces are kept in each input."""

    question: str
    passage: Passage
    kept: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class ExplainRequest(Message):
    """To the graph of explanations."""

    ask: ExplainAsk


@dataclass(frozen=True, slots=True)
class SearchRequest(Message):
    """To the searcher, which holds one backend per source."""

    source: DocumentSource
    sought: Sought
    limit: int


@dataclass(frozen=True, slots=True)
class ReadRequest(Message):
    """To the searcher: a page found before, to be read in full."""

    source: DocumentSource
    page: Document


@dataclass(frozen=True, slots=True)
class RetrievePairsRequest(Message):
    """To the knowledge base: the queries of one level of a plan."""

    queries: tuple[str, ...]
    limit: int


@dataclass(frozen=True, slots=True)
class ExtractRequest(Message):
    """To the hop reader: the readings of one level."""

    readings: tuple[Reading, ...]


@dataclass(frozen=True, slots=True)
class RewriteRequest(Message):
    """To the hop reader: the rewritings of one level."""

    rewritings: tuple[Rewriting, ...]


@dataclass(frozen=True, slots=True)
class GenerateRequest(Message):
    """To the generator."""

    prompt: Prompt
    sampling: Sampling


@dataclass(frozen=True, slots=True)
class PipelineRequest(Message):
    """To a graph: one question through one pipeline."""

    pipeline: PipelineName
    ask: Ask
