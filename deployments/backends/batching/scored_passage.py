"""What a scorer says about one passage."""

from dataclasses import dataclass

from crag_core.types import Score


@dataclass(frozen=True, slots=True)
class ScoredPassage:
    """A passage's score, `None` for an empty one, and whether only its beginning was read."""

    score: Score | None
    truncated: bool
