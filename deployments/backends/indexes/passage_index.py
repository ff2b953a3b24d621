"""The passage index of the static corpus: hybrid retrieval by full text and by vector."""

import asyncio
from collections import defaultdict
from collections.abc import Hashable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

from lancedb.query import FullTextOperator, LanceVectorQueryBuilder, MultiMatchQuery
from lancedb.table import Table

from crag_core.errors import RetrievalFailed
from crag_core.types import Document
from deployments.backends.indexes.lance_index import (
    LANCE_FAILURES,
    MAX_PARTITIONS,
    SEARCHED,
    VECTOR,
    Encoder,
    IndexKind,
    check_encoder,
    open_table,
    read_manifest,
    searchable,
)

_COLUMNS = ["id", "title", "text", "url"]

Key = TypeVar("Key", bound=Hashable)


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


class PassageIndex:
    """Passages by BM25 and by exact vector search, fused by reciprocal rank."""

    def __init__(self, table: Table, encoder: Encoder) -> None:
        self._table = table
        self._encoder = encoder
        self._encoding = ThreadPoolExecutor(max_workers=1, thread_name_prefix="encode")

    @classmethod
    def open(cls, uri: str, encoder: Encoder) -> "PassageIndex":
        """Open a folder or an object-store URI, such as s3://bucket/index.

        Raises SettingsError when there is no index, or one that another encoder has built.
        """
        manifest = read_manifest(uri, IndexKind.PASSAGES)
        check_encoder(uri, manifest, encoder)
        return cls(open_table(uri, manifest), encoder)

    async def search(self, query: str, *, limit: int, candidates: int, rrf_k: int) -> list[Document]:
        """At most `limit` passages, best first, fused from the first `candidates` of each side.

        Any text is a query, its full-text operators plain words; a blank one finds nothing.
        Raises RetrievalFailed when the index cannot be read or the query not be embedded.
        """
        words = searchable(query)
        if not words:
            return []
        try:
            sides = await asyncio.gather(
                asyncio.to_thread(self._by_text, words, candidates),
                self._by_vector(words, candidates),
            )
        except LANCE_FAILURES as error:
            raise RetrievalFailed("the passage index could not be searched") from error
        rows = {row["id"]: row for side in sides for row in side}
        best = reciprocal_rank_fusion([[row["id"] for row in side] for side in sides], rrf_k)
        return [Document(**{name: rows[key][name] for name in _COLUMNS}) for key in best[:limit]]

    def _by_text(self, words: str, candidates: int) -> list[dict[str, Any]]:
        match = MultiMatchQuery(words, [SEARCHED], boosts=[1.0], operator=FullTextOperator.OR)
        search = self._table.search(match, query_type="fts")
        hits: list[dict[str, Any]] = search.select([*_COLUMNS, "_score"]).limit(candidates).to_list()
        return hits

    async def _by_vector(self, words: str, candidates: int) -> list[dict[str, Any]]:
        loop = asyncio.get_running_loop()
        (vector,) = await loop.run_in_executor(self._encoding, self._encoder.encode, [words])
        search = LanceVectorQueryBuilder(self._table, vector, VECTOR).nprobes(MAX_PARTITIONS)
        chosen = search.select([*_COLUMNS, "_distance"]).limit(candidates)
        hits: list[dict[str, Any]] = await asyncio.to_thread(chosen.to_list)
        return hits
