"""Which coalitions of players are evaluated, and how their scores become values."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

Coalitions = NDArray[np.bool_]
"""One set of players a row, [coalitions, players]; True where the player is there."""

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Values:
    """What each player adds, [players]; with the standard errors where they are estimates."""

    values: Floats
    standard_errors: Floats | None = None


class Design(Protocol):
    """All coalitions that a method needs, known before the first is evaluated, so that they can be
    evaluated together. The first is the empty one, the second that of all players."""

    coalitions: Coalitions

    def solve(self, scores: Floats) -> Values:
        """The players' values from the coalitions' scores, [coalitions]."""
        ...


class CoalitionTable:
    """Gathers coalitions, each once, and says where in the table they stand."""

    def __init__(self, players: int) -> None:
        self._players = players
        self._places: dict[int, int] = {}
        self.place(0)
        self.everybody = (1 << players) - 1
        self.place(self.everybody)

    def __len__(self) -> int:
        return len(self._places)

    def place(self, coalition: int) -> int:
        """The row of a set of players, whose bit `i` is player `i`."""
        return self._places.setdefault(coalition, len(self._places))

    def coalitions(self) -> Coalitions:
        """All of them as rows, in the order in which they were placed."""
        return unpacked(list(self._places), self._players)


def unpacked(sets: Sequence[int], members: int) -> Coalitions:
    """Sets written as numbers, as rows [sets, members].

    >>> unpacked([0b01, 0b10], 2).tolist()
    [[True, False], [False, True]]
    """
    width = (members + 7) // 8
    packed = np.frombuffer(b"".join(each.to_bytes(width, "little") for each in sets), np.uint8)
    bits = np.unpackbits(packed.reshape(len(sets), width), axis=1, count=members, bitorder="little")
    return bits.astype(bool)


def packed(rows: Coalitions) -> list[int]:
    """Rows [sets, members] as numbers, whose bit `i` is member `i`.

    >>> packed(np.array([[True, False], [False, True]]))
    [1, 2]
    """
    bits = np.packbits(rows, axis=1, bitorder="little")
    return [int.from_bytes(row.tobytes(), "little") for row in bits]
