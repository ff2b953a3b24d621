"""The gate of every comparison: who does not come to the same replies has no figure."""

from collections.abc import Sequence
from dataclasses import dataclass

from benchmarks.peers.contest import Reply

_SHOWN = 3
_SHOWN_CHARACTERS = 300


@dataclass(frozen=True, slots=True)
class Equality:
    """How far a contestant's replies are the reference's."""

    works: int
    decided_equal: int
    """Under the load of the rounds."""
    texts_equal: int
    """One at a time."""
    texts_equal_under_load: int
    differences: tuple[str, ...]
    """The first few, in words."""

    @property
    def holds(self) -> bool:
        """Whether its figures may be shown."""
        return self.works > 0 and self.decided_equal == self.texts_equal == self.works


def compared(
    works: Sequence[str],
    reference: Sequence[Reply],
    loaded: Sequence[Reply],
    alone: Sequence[Reply],
) -> Equality:
    """A contestant's replies, under load and alone, held against the reference's alone.

    What it decides must be equal both times. `works` name the pieces of work, in the order of replies.
    """
    rows = list(zip(works, reference, loaded, alone, strict=True))
    differences = [
        f"{work}: {_short(found)} instead of {_short(expected)}"
        for work, right, under_load, by_itself in rows
        for expected, found in (
            (right.decided, under_load.decided),
            (right.decided, by_itself.decided),
            (right.text, by_itself.text),
        )
        if found != expected
    ]
    return Equality(
        works=len(rows),
        decided_equal=sum(r.decided == u.decided == a.decided for _, r, u, a in rows),
        texts_equal=sum(r.text == a.text for _, r, _, a in rows),
        texts_equal_under_load=sum(r.text == u.text for _, r, u, _ in rows),
        differences=tuple(differences[:_SHOWN]),
    )


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= _SHOWN_CHARACTERS else f"{text[:_SHOWN_CHARACTERS]}..."
