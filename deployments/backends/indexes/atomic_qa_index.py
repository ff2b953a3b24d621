"""The index of atomic pairs: `question + answer`, searched by text and by vector."""

from collections.abc import Sequence

import numpy as np
from lancedb.table import Table
from numpy.typing import NDArray

from crag_core.compact.knowledge_base import fact_key
from crag_core.compact.types import AtomicQA, ScoredPair
from deployments.backends.indexes.hybrid_search import HybridSearch, Row
from deployments.backends.indexes.lance_index import (
    VECTOR,
    Encoder,
    IndexKind,
    check_encoder,
    open_table,
    read_manifest,
)

_COLUMNS = ["id", "question", "answer", "passage_id", "title", "url"]


class AtomicQAIndex:
    """Atomic pairs by BM25 and by exact vector search; pairs that state one fact count once."""

    def __init__(self, table: Table, encoder: Encoder) -> None:
        self._search = HybridSearch(table, encoder, _COLUMNS)

    @classmethod
    def open(cls, uri: str, encoder: Encoder) -> "AtomicQAIndex":
        """Open a folder or an object-store URI.

        Raises SettingsError when there is no base, or one that another encoder has built.
        """
        manifest = read_manifest(uri, IndexKind.ATOMIC_QA)
        check_encoder(uri, manifest, encoder)
        return cls(open_table(uri, manifest), encoder)

    async def search(
        self, queries: Sequence[str], *, limit: int, candidates: int, rrf_k: int
    ) -> list[list[ScoredPair]]:
        """At most `limit` pairs per query, best first, with their cosine (for encoders that normalise).

        Raises RetrievalFailed when the base cannot be read or a query not be embedded.
        """
        found = await self._search.search(queries, candidates=candidates, rrf_k=rrf_k, with_vectors=True)
        return [_different(rows, vector, limit) for rows, vector in found]


def _different(rows: Sequence[Row], query: NDArray[np.float32], limit: int) -> list[ScoredPair]:
    pairs: dict[str, ScoredPair] = {}
    for row in rows:
        key = fact_key(row["question"], row["answer"])
        if key not in pairs:
            score = float(np.dot(np.asarray(row[VECTOR], dtype=np.float32), query))
            pairs[key] = ScoredPair(AtomicQA(**{name: row[name] for name in _COLUMNS}), score)
        if len(pairs) == limit:
            break
    return list(pairs.values())
