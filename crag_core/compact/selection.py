"""Which of the pairs retrieved for a sub-question are read: the nearest, each fact once.

A base holds many pairs on what is asked, and some of one fact in other words; the released rules tell
pairs apart by their question alone, so that different facts are lost and equal ones fill the places.
"""

from collections.abc import Sequence

from crag_core.compact.answer_words import content
from crag_core.compact.grounding import names_in
from crag_core.compact.types import ScoredPair

_SAME_FACT = 0.6
"""From this share of common words on, two pairs are taken to state one fact."""

_NAMES_WEIGHT = 0.1
"""What it is worth, beside the cosine, that a pair holds all names of the query (found by trial)."""


def select_pairs(query: str, found: Sequence[ScoredPair], limit: int) -> tuple[ScoredPair, ...]:
    """At most `limit` of the pairs, by their cosine and the share of the query's names they hold.

    Pairs that repeat a chosen one come last, where there is room.
    """
    names = names_in(query)
    texts = [content(_text(pair)) for pair in found]

    def merit(place: int) -> float:
        held = len(names & texts[place]) / max(1, len(names))
        return found[place].score + _NAMES_WEIGHT * held

    chosen: list[int] = []
    repeated: list[int] = []
    for place in sorted(range(len(found)), key=merit, reverse=True):
        same = any(_shared(texts[place], texts[other]) >= _SAME_FACT for other in chosen)
        (repeated if same else chosen).append(place)
    return tuple(found[place] for place in [*chosen, *repeated][:limit])


def _text(found: ScoredPair) -> str:
    return f"{found.pair.title} {found.pair.question} {found.pair.answer}"


def _shared(first: set[str], second: set[str]) -> float:
    """Jaccard's similarity of two sets of words."""
    return len(first & second) / max(1, len(first | second))
