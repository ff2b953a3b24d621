"""The stages of CompactRAG in this process: an index on disk, a pool of units in memory, the rules."""

import asyncio
import math
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from crag_core.compact.answer_rules import extract_by_rule
from crag_core.compact.knowledge_base import fact_key
from crag_core.compact.protocols import EntityFinder
from crag_core.compact.types import AtomicQA, ExtractedAnswer, Reading, Rewriting, ScoredPair
from crag_core.context import RequestContext
from deployments.backends.indexes.atomic_qa_index import AtomicQAIndex
from deployments.backends.indexes.hybrid_search import reciprocal_rank_fusion
from deployments.backends.indexes.lance_index import (
    VECTOR,
    Encoder,
    IndexKind,
    open_table,
    read_manifest,
)

_CANDIDATES = 50
_RRF_K = 60
_WORD = re.compile(r"\w+")
_K1, _B = 1.2, 0.75


@dataclass(frozen=True, slots=True)
class IndexedPairs:
    """A `QARetriever` over a knowledge base on disk, which searches once for each query."""

    index: AtomicQAIndex
    known: dict[str, Sequence[ScoredPair]] = field(default_factory=dict)

    async def retrieve_pairs(
        self, ctx: RequestContext, queries: Sequence[str], *, limit: int
    ) -> Sequence[Sequence[ScoredPair]]:
        """As the deployment retrieves them."""
        new = [query for query in dict.fromkeys(queries) if query not in self.known]
        found = await self.index.search(new, limit=_CANDIDATES, candidates=_CANDIDATES, rrf_k=_RRF_K)
        self.known.update(zip(new, found, strict=True))
        return [self.known[query][:limit] for query in queries]


@dataclass
class VectorPairs:
    """A `QARetriever` as the released code has it: all vectors of a base, exact, and no words."""

    base: str
    encoder: Encoder
    _pairs: list[AtomicQA] = field(init=False)
    _vectors: NDArray[np.float32] = field(init=False)

    def __post_init__(self) -> None:
        manifest = read_manifest(self.base, IndexKind.ATOMIC_QA)
        rows = open_table(self.base, manifest).to_arrow()
        columns = ("id", "question", "answer", "passage_id", "title")
        values = (rows[name].to_pylist() for name in columns)
        self._pairs = [AtomicQA(*row) for row in zip(*values, strict=True)]
        self._vectors = np.stack(rows[VECTOR].to_numpy()).astype(np.float32)

    async def retrieve_pairs(
        self, ctx: RequestContext, queries: Sequence[str], *, limit: int
    ) -> Sequence[Sequence[ScoredPair]]:
        """The nearest, duplicates too."""
        vectors = await asyncio.to_thread(self.encoder.encode, queries)
        return [self._nearest(self._vectors @ vector, limit) for vector in vectors]

    def _nearest(self, cosines: NDArray[np.float32], limit: int) -> list[ScoredPair]:
        order = np.argsort(-cosines)[:limit]
        return [ScoredPair(self._pairs[place], float(cosines[place])) for place in order]


@dataclass
class PooledPairs:
    """A `QARetriever` over the few units of one question: BM25 and cosine, fused as in the index."""

    pairs: Sequence[AtomicQA]
    encoder: Encoder
    _vectors: NDArray[np.float32] = field(init=False)
    _words: list[Counter[str]] = field(init=False)

    def __post_init__(self) -> None:
        texts = [f"{pair.question}\n{pair.answer}" for pair in self.pairs]
        self._vectors = self.encoder.encode(texts)
        self._words = [Counter(_WORD.findall(text.lower())) for text in texts]

    async def retrieve_pairs(
        self, ctx: RequestContext, queries: Sequence[str], *, limit: int
    ) -> Sequence[Sequence[ScoredPair]]:
        """Different pairs, best first."""
        vectors = await asyncio.to_thread(self.encoder.encode, queries)
        return [self._best(query, vector, limit) for query, vector in zip(queries, vectors, strict=True)]

    def _best(self, query: str, vector: NDArray[np.float32], limit: int) -> list[ScoredPair]:
        cosines = self._vectors @ vector
        lexical = self._bm25(query)
        places = range(len(self.pairs))
        rankings = [
            sorted(places, key=lambda place: -cosines[place])[:_CANDIDATES],
            [place for place in sorted(places, key=lambda place: -lexical[place]) if lexical[place] > 0][
                :_CANDIDATES
            ],
        ]
        best: dict[str, ScoredPair] = {}
        for place in reciprocal_rank_fusion(rankings, _RRF_K):
            pair = self.pairs[place]
            best.setdefault(
                fact_key(pair.question, pair.answer), ScoredPair(pair, float(cosines[place]))
            )
        return list(best.values())[:limit]

    def _bm25(self, query: str) -> list[float]:
        """BM25 of every unit (Robertson and Zaragoza, 2009)."""
        mean = sum(words.total() for words in self._words) / max(1, len(self._words))
        scores = [0.0] * len(self._words)
        for term in set(_WORD.findall(query.lower())):
            holding = sum(term in words for words in self._words)
            idf = math.log(1 + (len(self._words) - holding + 0.5) / (holding + 0.5))
            for place, words in enumerate(self._words):
                if count := words[term]:
                    length = 1 - _B + _B * words.total() / mean
                    scores[place] += idf * count * (_K1 + 1) / (count + _K1 * length)
        return scores


@dataclass(frozen=True, slots=True)
class RuleReader:
    """Extractor and rewriter without weights, as the embedded profile has them."""

    finder: EntityFinder

    async def extract(
        self, ctx: RequestContext, readings: Sequence[Reading]
    ) -> Sequence[ExtractedAnswer | None]:
        """By rule."""
        return extract_by_rule(readings, self.finder)

    async def rewrite(
        self, ctx: RequestContext, rewritings: Sequence[Rewriting]
    ) -> Sequence[str | None]:
        """Nothing: the rule for references stands."""
        return [None] * len(rewritings)
