"""The stages of CompactRAG: each takes all hops of a level in one call."""

from collections.abc import Sequence
from typing import Protocol

from crag_core.compact.types import ExtractedAnswer, Reading, Rewriting, ScoredPair
from crag_core.context import RequestContext


class QARetriever(Protocol):
    """At most `limit` different pairs per query, best first, in the order of the queries.

    Raises RetrievalFailed. An empty base has no pairs for any query.
    """

    async def retrieve_pairs(
        self, ctx: RequestContext, queries: Sequence[str], *, limit: int
    ) -> Sequence[Sequence[ScoredPair]]: ...


class SubQuestionRewriter(Protocol):
    """One text per rewriting, in order, or `None` where there is no model; raises StageFailed.

    What it writes is not trusted: the caller checks it.
    """

    async def rewrite(
        self, ctx: RequestContext, rewritings: Sequence[Rewriting]
    ) -> Sequence[str | None]: ...


class AnswerExtractor(Protocol):
    """One answer per reading, in order; `None` where no pair answers. Raises StageFailed.

    An answer is never blank and lies within one pair.
    """

    async def extract(
        self, ctx: RequestContext, readings: Sequence[Reading]
    ) -> Sequence[ExtractedAnswer | None]: ...


class EntityFinder(Protocol):
    """The named entities of each text, with their OntoNotes labels, in order of appearance."""

    def entities(self, texts: Sequence[str]) -> Sequence[Sequence[tuple[str, str]]]: ...
