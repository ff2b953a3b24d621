"""A search that replays what a question set's own search found: for evaluation, never for serving."""

import gzip
import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from crag_core.errors import SettingsError
from crag_core.protocols import SearchResult
from crag_core.types import Document, DocumentSource, FoundPage, SearchQuery, Strategy


class ReplayedSearch:
    """Pages by request id: the question is known by who asks, not by what is asked."""

    def __init__(self, pages: Mapping[str, Sequence[Document]]) -> None:
        self._pages = pages

    @classmethod
    def open(cls, files: Sequence[str]) -> "ReplayedSearch":
        """The `external` of every row; raises SettingsError when a file is missing or is none."""
        pages: dict[str, list[Document]] = {}
        for file in files:
            path = Path(file)
            name = path.name.partition(".")[0]
            for row in _rows(path):
                key = f"{name}.{row['id']}"
                pages[key] = [
                    Document(
                        id=f"replay:{key}:{position}",
                        text=page["text"],
                        title=page["title"] or "",
                        source=DocumentSource.REPLAY,
                    )
                    for position, page in enumerate(row["external"])
                ]
        return cls(pages)

    def search(self, request_id: str, *, limit: int) -> SearchResult:
        """The first pages of the question with this id; none for any other request."""
        query = SearchQuery(request_id, Strategy.SEARCH, "", "replayed from the question set")
        found = self._pages.get(request_id, ())[:limit]
        return SearchResult(tuple(FoundPage(page, query, Strategy.SEARCH) for page in found), (query,))


def _rows(path: Path) -> Iterator[dict[str, Any]]:
    opened = gzip.open if path.suffix == ".gz" else open
    try:
        with opened(path, "rt", encoding="utf-8", newline="\n") as lines:
            for number, line in enumerate(lines, start=1):
                row = json.loads(line)
                if not isinstance(row.get("external"), list):
                    raise ValueError(f"row {number} has no `external`")
                yield row
    except (OSError, EOFError, ValueError, AttributeError) as error:
        raise SettingsError(f"{path} is no question set with `external` to replay: {error}") from error
