"""Values estimated from random orders in which the players come, each with its reverse."""

from collections.abc import Iterator, Sequence

import numpy as np

from explainability.coalitions import Coalitions, CoalitionTable, Floats, Values
from explainability.groups import Group


class OrdersDesign:
    """Orders in which the players of each group stay together; each adds what it adds when it comes.

    Over a tree the values are estimates of Owen's, over a group of single players of Shapley's. Every
    order's values add up exactly, and so do their means. The reverse of an order balances early against
    late (antithetic sampling).
    """

    def __init__(self, tree: Group, pairs: int, seed: int) -> None:
        """So many pairs of an order and its reverse."""
        random = np.random.default_rng(seed)
        self._players = len(tree.members)
        table = CoalitionTable(self._players)
        self._orders: list[tuple[list[Group], list[int]]] = []
        for _ in range(pairs):
            order = list(_shuffled(tree, random))
            for each in (order, order[::-1]):
                self._orders.append((each, _places(each, table)))
        self.coalitions: Coalitions = table.coalitions()

    def solve(self, scores: Floats) -> Values:
        """Means over the orders, and their standard errors where there are two pairs or more."""
        added = np.zeros((len(self._orders), self._players))
        for row, (order, places) in zip(added, self._orders, strict=True):
            for group, gain in zip(order, np.diff(scores[places]), strict=True):
                row[list(group.members)] = gain / len(group.members)
        pairs = added.reshape(-1, 2, self._players).mean(axis=1)
        if len(pairs) < 2:
            return Values(pairs.mean(axis=0))
        return Values(pairs.mean(axis=0), pairs.std(axis=0, ddof=1) / np.sqrt(len(pairs)))


def _shuffled(group: Group, random: np.random.Generator) -> Iterator[Group]:
    if not group.parts:
        yield group
    for position in random.permutation(len(group.parts)):
        yield from _shuffled(group.parts[position], random)


def _places(order: Sequence[Group], table: CoalitionTable) -> list[int]:
    coalition = 0
    places = [table.place(coalition)]
    for group in order:
        coalition |= group.coalition
        places.append(table.place(coalition))
    return places
