"""The passage index of the static corpus: hybrid retrieval by full text and by vector."""

from lancedb.table import Table

from crag_core.types import Document
from deployments.backends.indexes.hybrid_search import HybridSearch
from deployments.backends.indexes.lance_index import (
    Encoder,
    IndexKind,
    check_encoder,
    open_table,
    read_manifest,
)

_COLUMNS = ["id", "title", "text", "url"]


class PassageIndex:
    """Passages by BM25 and by exact vector search, fused by reciprocal rank."""

    def __init__(self, table: Table, encoder: Encoder) -> None:
        self._search = HybridSearch(table, encoder, _COLUMNS)

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

        Any text is a query; a blank one finds nothing. Raises RetrievalFailed when the index cannot
        be read or the query not be embedded.
        """
        ((rows, _),) = await self._search.search([query], candidates=candidates, rrf_k=rrf_k)
        return [Document(**{name: row[name] for name in _COLUMNS}) for row in rows[:limit]]
