"""A caller's own documents in place of the base: the strips that share most words with each hop.

Documents may be long, and the event loop is that of other questions too: all work is done off it.
"""

import asyncio
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from crag_core.compact.resolution import Resolver
from crag_core.compact.types import AtomicQA, ScoredPair
from crag_core.context import RequestContext
from crag_core.degrade import strips_left_out
from crag_core.refinement import decompose_all
from crag_core.settings import RefinementSettings
from crag_core.trace import Recorder
from crag_core.types import Document, Stage, Strip

_WORD = re.compile(r"\w+")
_STRIPS = RefinementSettings(sentences_per_strip=1, min_strip_words=1)


@dataclass(frozen=True, slots=True)
class CallersDocuments:
    """A `QARetriever` over documents that came with the question; scores are shares of words."""

    strips: Sequence[tuple[AtomicQA, set[str]]]
    """With the words of each."""

    @classmethod
    async def read(
        cls, documents: Sequence[Document], max_strips: int, recorder: Recorder
    ) -> "CallersDocuments":
        """The first `max_strips` strips of the documents; that there are more is recorded."""
        settings = _STRIPS.model_copy(update={"max_strips_scored": max_strips})
        with recorder.stage(Stage.RETRIEVE_PAIRS):
            strips = await asyncio.to_thread(decompose_all, documents, settings)
            if len(strips) > max_strips:
                recorder.degraded.append(strips_left_out(Stage.RETRIEVE_PAIRS))
            return cls(await asyncio.to_thread(_with_words, strips[:max_strips], documents))

    def in_place_of_pairs(self, resolver: Resolver) -> Resolver:
        """The resolver, reading these documents and nothing else."""
        return replace(resolver, pairs=self, passages=None)

    async def retrieve_pairs(
        self, ctx: RequestContext, queries: Sequence[str], *, limit: int
    ) -> Sequence[Sequence[ScoredPair]]:
        """For each query the strips that share most of its words; those that share none are left out."""
        return await asyncio.to_thread(lambda: [self._best(query, limit) for query in queries])

    def _best(self, query: str, limit: int) -> list[ScoredPair]:
        wanted = _words(query)
        scored = [
            ScoredPair(pair, len(wanted & words) / max(1, len(wanted))) for pair, words in self.strips
        ]
        ranked = sorted(scored, key=lambda found: -found.score)
        return [found for found in ranked[:limit] if found.score > 0]


def _with_words(
    strips: Sequence[Strip], documents: Sequence[Document]
) -> list[tuple[AtomicQA, set[str]]]:
    by_id = {document.id: document for document in documents}
    pairs = [_as_pair(strip, by_id[strip.document_id]) for strip in strips]
    return [(pair, _words(f"{pair.title} {pair.answer}")) for pair in pairs]


def _as_pair(strip: Strip, document: Document) -> AtomicQA:
    return AtomicQA(
        f"{document.id}#{strip.start}",
        document.title,
        strip.text,
        document.id,
        document.title,
        document.url,
        strip,
    )


def _words(text: str) -> set[str]:
    return {word for word in _WORD.findall(text.lower()) if len(word) > 2 or word.isdigit()}
