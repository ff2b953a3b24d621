"""Owen values over a binary tree of groups, from all the coalitions that they are made of."""

from collections.abc import Sequence

import numpy as np

from explainability.coalitions import Coalitions, CoalitionTable, Floats, Values
from explainability.groups import Group


def owen_evaluations(tree: Group) -> int:
    """How many coalitions an OwenDesign of this binary tree has: about the players squared."""
    return 2 + _below(tree, 0)


class OwenDesign:
    """Players bargain group against group, then part against part inside (Owen 1977, nested).

    A part's context is whatever may have come before it: of each sibling on the way down to it, all or
    nothing. It adds the mean over its contexts.
    """

    def __init__(self, tree: Group) -> None:
        self._players = len(tree.members)
        self._table = CoalitionTable(self._players)
        self._terms: list[tuple[Group, list[int], list[int]]] = []
        self._visit(tree, [0])
        self.coalitions: Coalitions = self._table.coalitions()

    def solve(self, scores: Floats) -> Values:
        """The players' values; those of players that come together share alike."""
        values = np.zeros(self._players)
        for leaf, without, with_it in self._terms:
            values[list(leaf.members)] = (scores[with_it] - scores[without]).mean() / len(leaf.members)
        return Values(values)

    def _visit(self, group: Group, contexts: Sequence[int]) -> None:
        if not group.parts:
            without = [self._table.place(context) for context in contexts]
            with_it = [self._table.place(context | group.coalition) for context in contexts]
            self._terms.append((group, without, with_it))
            return
        first, second = group.parts
        self._visit(first, [*contexts, *(context | second.coalition for context in contexts)])
        self._visit(second, [*contexts, *(context | first.coalition for context in contexts)])


def _below(group: Group, depth: int) -> int:
    """Each of two parts, in each of the contexts that double with every step down."""
    if not group.parts:
        return 0
    return (2 << depth) + sum(_below(part, depth + 1) for part in group.parts)
