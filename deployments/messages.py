"""What travels between processes: one message per handle call, the request's context in each.

A deadline crosses as the seconds that remain; the receiver's first line makes it local again.
"""

from dataclasses import dataclass
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
class RetrieveRequest:
    """To the retriever."""

    context: WireContext
    query: str
    limit: int


@dataclass(frozen=True, slots=True)
class EvaluateRequest:
    """To the evaluator: one question with all its passages."""

    context: WireContext
    question: str
    passages: tuple[Passage, ...]


@dataclass(frozen=True, slots=True)
class PiecesRequest:
    """To the evaluator: what it reads of one question and passage."""

    context: WireContext
    question: str
    passage: Passage


@dataclass(frozen=True, slots=True)
class MaskedRequest:
    """To the evaluator: one question and passage, and which pieces are kept in each input."""

    context: WireContext
    question: str
    passage: Passage
    kept: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class ExplainRequest:
    """To the graph of explanations."""

    context: WireContext
    ask: ExplainAsk


@dataclass(frozen=True, slots=True)
class SearchRequest:
    """To the searcher, which holds one backend per source."""

    context: WireContext
    source: DocumentSource
    sought: Sought
    limit: int


@dataclass(frozen=True, slots=True)
class ReadRequest:
    """To the searcher: a page found before, to be read in full."""

    context: WireContext
    source: DocumentSource
    page: Document


@dataclass(frozen=True, slots=True)
class RetrievePairsRequest:
    """To the knowledge base: the queries of one level of a plan."""

    context: WireContext
    queries: tuple[str, ...]
    limit: int


@dataclass(frozen=True, slots=True)
class ExtractRequest:
    """To the hop reader: the readings of one level."""

    context: WireContext
    readings: tuple[Reading, ...]


@dataclass(frozen=True, slots=True)
class RewriteRequest:
    """To the hop reader: the rewritings of one level."""

    context: WireContext
    rewritings: tuple[Rewriting, ...]


@dataclass(frozen=True, slots=True)
class GenerateRequest:
    """To the generator."""

    context: WireContext
    prompt: Prompt
    sampling: Sampling


@dataclass(frozen=True, slots=True)
class PipelineRequest:
    """To a graph: one question through one pipeline."""

    context: WireContext
    pipeline: PipelineName
    ask: Ask
