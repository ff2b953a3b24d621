"""Groups of players within groups: sentences of phrases of words, as a binary tree."""

import heapq
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import count
from typing import Self


@dataclass(frozen=True)
class Group:
    """A player, or several that come and go together, or a group of groups.

    `members` are the players in it; where there are `parts`, those of all parts.
    """

    members: tuple[int, ...]
    parts: "tuple[Group, ...]" = ()

    @cached_property
    def coalition(self) -> int:
        """Its players as a set, written as a number."""
        return sum(1 << member for member in self.members)

    @classmethod
    def of(cls, parts: "Sequence[Group]") -> Self:
        """The group of these parts."""
        return cls(tuple(member for part in parts for member in part.members), tuple(parts))

    def leaves(self) -> "Iterator[Group]":
        """The smallest groups, in order."""
        if not self.parts:
            yield self
        for part in self.parts:
            yield from part.leaves()

    def coarsened(self, most_leaves: int) -> "Group":
        """This group with at most so many leaves: the largest parts are divided first."""
        ties = count()
        waiting = [(-len(self.members), next(ties), self)]
        divided: set[int] = set()
        leaves = 1
        while waiting:
            _, _, group = heapq.heappop(waiting)
            if group.parts and leaves + len(group.parts) - 1 <= most_leaves:
                leaves += len(group.parts) - 1
                divided.add(id(group))
                for part in group.parts:
                    heapq.heappush(waiting, (-len(part.members), next(ties), part))
        return _only(self, divided)


def halved(parts: Sequence[Group]) -> Group:
    """A binary tree over the parts, as even as it can be, which keeps their order.

    >>> [part.members for part in halved([Group((i,)) for i in range(3)]).parts]
    [(0,), (1, 2)]
    """
    if len(parts) == 1:
        return parts[0]
    middle = len(parts) // 2
    return Group.of((halved(parts[:middle]), halved(parts[middle:])))


def _only(group: Group, divided: set[int]) -> Group:
    if id(group) not in divided:
        return Group(group.members)
    return Group(group.members, tuple(_only(part, divided) for part in group.parts))
