"""Which of the pairs retrieved for a sub-question are read: those that name it, each fact once.

A base holds many pairs on what is asked, and some of one fact in other words; the released rules tell
pairs apart by their question alone, so that different facts are lost and equal ones fill the places.
"""

from collections.abc import Sequence

from crag_core.compact.answer_words import content
from crag_core.compact.grounding import names_in
from crag_core.compact.types import ScoredPair

_SAME_FACT = 0.6
"""From this share of common words on, two pairs are taken to state one fact."""


def select_pairs(query: str, found: Sequence[ScoredPair], limit: int) -> tuple[ScoredPair, ...]:
    """At most `limit` of the pairs: first those that hold most names of the query, in the order given.

    Pairs that repeat a chosen one come last, where there is room.
    """
    names = names_in(query)
    texts = [content(_text(pair)) for pair in found]
    named = [len(names & words) for words in texts]
    order = sorted(range(len(found)), key=lambda place: -named[place])
    chosen: list[int] = []
    repeated: list[int] = []
    for place in order:
        same = any(_shared(texts[place], texts[other]) >= _SAME_FACT for other in chosen)
        (repeated if same else chosen).append(place)
    return tuple(found[place] for place in [*chosen, *repeated][:limit])


def _text(found: ScoredPair) -> str:
    return f"{found.pair.title} {found.pair.question} {found.pair.answer}"


def _shared(first: set[str], second: set[str]) -> float:
    """Jaccard's similarity of two sets of words."""
    return len(first & second) / max(1, len(first | second))
