"""Hybrid search of one table: full text and exact vectors, fused by reciprocal rank."""

import asyncio
from collections import defaultdict
from collections.abc import Hashable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

import numpy as np
from lancedb.query import FullTextOperator, LanceVectorQueryBuilder, MultiMatchQuery
from lancedb.table import Table
from numpy.typing import NDArray

from crag_core.errors import RetrievalFailed
from deployments.backends.indexes.lance_index import (
    LANCE_FAILURES,
    MAX_PARTITIONS,
    SEARCHED,
    VECTOR,
    Encoder,
    searchable,
)

Key = TypeVar("Key", bound=Hashable)
Row = dict[str, Any]


def reciprocal_rank_fusion(rankings: Sequence[Sequence[Key]], k: int) -> list[Key]:
    """Fuse rankings: each adds 1 / (k + rank) to what it ranks (Cormack et al., 2009).

    >>> reciprocal_rank_fusion([["a", "b", "c"], ["b", "d"]], k=60)
    ['b', 'a', 'd', 'c']
    """
    scores: defaultdict[Key, float] = defaultdict(float)
    for ranking in rankings:
        for rank, key in enumerate(ranking, start=1):
            scores[key] += 1 / (k + rank)
    return sorted(scores, key=scores.__getitem__, reverse=True)


class HybridSearch:
    """Rows by BM25 and by exact vector search, fused by reciprocal rank."""

    def __init__(self, table: Table, encoder: Encoder, columns: Sequence[str]) -> None:
        """Searches `table`, whose rows have an `id`, and returns these columns of them."""
        self._table = table
        self._encoder = encoder
        self._columns = [*columns]
        self._encoding = ThreadPoolExecutor(max_workers=1, thread_name_prefix="encode")

    async def search(
        self, queries: Sequence[str], *, candidates: int, rrf_k: int, with_vectors: bool = False
    ) -> list[tuple[list[Row], NDArray[np.float32]]]:
        """For each query its rows, best first, from `candidates` of each side, and its embedding.

        Any text is a query, its full-text operators plain words; a blank one finds nothing. All queries
        are embedded in one batch. Raises RetrievalFailed when the index cannot be read or a query
        not be embedded.
        """
        words = [searchable(query) for query in queries]
        full = [position for position, text in enumerate(words) if text]
        results = [([], np.zeros(0, np.float32)) for _ in queries]  # type: list[tuple[list[Row], NDArray[np.float32]]]
        if not full:
            return results
        loop = asyncio.get_running_loop()
        try:
            vectors = await loop.run_in_executor(
                self._encoding, self._encoder.encode, [words[position] for position in full]
            )
            found = await asyncio.gather(
                *(
                    self._one(words[position], vector, candidates, rrf_k, with_vectors)
                    for position, vector in zip(full, vectors, strict=True)
                )
            )
        except LANCE_FAILURES as error:
            raise RetrievalFailed("the index could not be searched") from error
        for position, rows, vector in zip(full, found, vectors, strict=True):
            results[position] = rows, vector
        return results

    async def _one(
        self, words: str, vector: NDArray[np.float32], candidates: int, rrf_k: int, with_vectors: bool
    ) -> list[Row]:
        columns = [*self._columns, *([VECTOR] if with_vectors else [])]
        sides = await asyncio.gather(
            asyncio.to_thread(self._by_text, words, candidates, columns),
            asyncio.to_thread(self._by_vector, vector, candidates, columns),
        )
        rows = {row["id"]: row for side in sides for row in side}
        fused = reciprocal_rank_fusion([[row["id"] for row in side] for side in sides], rrf_k)
        return [rows[key] for key in fused]

    def _by_text(self, words: str, candidates: int, columns: list[str]) -> list[Row]:
        match = MultiMatchQuery(words, [SEARCHED], boosts=[1.0], operator=FullTextOperator.OR)
        search = self._table.search(match, query_type="fts")
        hits: list[Row] = search.select([*columns, "_score"]).limit(candidates).to_list()
        return hits

    def _by_vector(self, vector: NDArray[np.float32], candidates: int, columns: list[str]) -> list[Row]:
        search = LanceVectorQueryBuilder(self._table, vector, VECTOR).nprobes(MAX_PARTITIONS)
        hits: list[Row] = search.select([*columns, "_distance"]).limit(candidates).to_list()
        return hits
