"""Shapley values from every coalition there is; for few players."""

from math import factorial

import numpy as np

from explainability.coalitions import Coalitions, CoalitionTable, Floats, Values

MOST_PLAYERS = 12
"""4,096 coalitions."""


class ExactDesign:
    """Every coalition of at most `MOST_PLAYERS` players."""

    def __init__(self, players: int) -> None:
        if players > MOST_PLAYERS:
            raise ValueError(f"{players} players have {2**players} coalitions, too many to evaluate all")
        table = CoalitionTable(players)
        for coalition in range(2**players):
            table.place(coalition)
        self.coalitions: Coalitions = table.coalitions()

    def solve(self, scores: Floats) -> Values:
        """The mean of what each player adds over all orders in which players may come (Shapley 1953)."""
        players = self.coalitions.shape[1]
        sizes = self.coalitions.sum(axis=1)
        # so many of all orders begin with these players, the player's own turn last, or next
        last = np.array(
            [0.0, *(_share(size - 1, players - size, players) for size in range(1, players + 1))]
        )
        following = np.array(
            [*(_share(size, players - size - 1, players) for size in range(players)), 0.0]
        )
        weights = np.where(self.coalitions, last[sizes][:, None], -following[sizes][:, None])
        return Values(weights.T @ scores)


def _share(before: int, after: int, players: int) -> float:
    return factorial(before) * factorial(after) / factorial(players)
