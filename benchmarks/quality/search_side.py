"""Where external knowledge comes from in a run, which every table names."""

from collections.abc import Iterable
from enum import StrEnum

from crag_core.types import DocumentSource


class SearchSide(StrEnum):
    """The source that a run searches; `replay` is what each set's own search found, by question id."""

    REPLAY = "replay"
    SNAPSHOT = "snapshot"
    MEDIAWIKI = "mediawiki"

    @property
    def source(self) -> DocumentSource:
        """The source that its documents name."""
        return DocumentSource.WIKIPEDIA if self is SearchSide.MEDIAWIKI else DocumentSource(self.value)


def refuse_other_sources(side: SearchSide | None, sources: Iterable[str]) -> None:
    """Raise ValueError when pages came from elsewhere than the run says."""
    others = {source for source in sources if side is not None and source != side.source}
    if others:
        raise ValueError(
            f"the server searched {', '.join(sorted(others))}, but this run says --search {side}: set "
            "`searcher` in the server's config, or leave --search out"
        )
