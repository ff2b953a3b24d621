"""What a scorer says about one passage."""

from dataclasses import dataclass, field

from crag_core.types import Score


@dataclass(frozen=True, slots=True)
class ScoredPassage:
    """A passage's score, `None` for an empty one, and whether only its beginning was read.

    `queue_s` is how long it waited for the device, in seconds; 0 where the score was known.
    """

    score: Score | None
    truncated: bool
    queue_s: float = field(default=0.0, compare=False)
