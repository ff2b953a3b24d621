"""A caller's own documents in place of the base: the strips that share most words with each hop."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from crag_core.compact.resolution import Resolver
from crag_core.compact.types import AtomicQA, ScoredPair
from crag_core.context import RequestContext
from crag_core.settings import RefinementSettings
from crag_core.strips import decompose
from crag_core.types import Document

_WORD = re.compile(r"\w+")
_STRIPS = RefinementSettings(sentences_per_strip=1, min_strip_words=1)


@dataclass(frozen=True)
class CallersDocuments:
    """A `QARetriever` over documents that came with the question; scores are shares of words."""

    documents: Sequence[Document]

    def in_place_of_pairs(self, resolver: Resolver) -> Resolver:
        """The resolver, reading these documents and nothing else."""
        return replace(resolver, pairs=self, passages=None)

    async def retrieve_pairs(
        self, ctx: RequestContext, queries: Sequence[str], *, limit: int
    ) -> Sequence[Sequence[ScoredPair]]:
        """For each query the strips that share most of its words; those that share none are left out."""
        return [self._best(query, limit) for query in queries]

    def _best(self, query: str, limit: int) -> list[ScoredPair]:
        wanted = _words(query)
        scored = [
            ScoredPair(pair, len(wanted & words) / max(1, len(wanted))) for pair, words in self._strips
        ]
        ranked = sorted(scored, key=lambda found: -found.score)
        return [found for found in ranked[:limit] if found.score > 0]

    @cached_property
    def _strips(self) -> list[tuple[AtomicQA, set[str]]]:
        return [
            (
                AtomicQA(
                    f"{document.id}#{number}",
                    document.title,
                    strip.text,
                    document.id,
                    document.title,
                    document.url,
                    strip,
                ),
                _words(f"{document.title} {strip.text}"),
            )
            for document in self.documents
            for number, strip in enumerate(decompose(document, _STRIPS))
        ]


def _words(text: str) -> set[str]:
    return {word for word in _WORD.findall(text.lower()) if len(word) > 2 or word.isdigit()}
