"""The methods against brute force, and against the `shap` library."""

from collections.abc import Callable, Iterator
from itertools import permutations

import numpy as np
import pytest
import shap

from crag_core.explaining import Method
from explainability.coalitions import Coalitions, Design, Floats, Values
from explainability.exact import ExactDesign
from explainability.groups import Group, halved
from explainability.methods import design_for
from explainability.orders import OrdersDesign
from explainability.owen import OwenDesign, owen_evaluations

Game = Callable[[Coalitions], Floats]


def random_game(players: int, seed: int = 0) -> Game:
    """A game in which every coalition has a worth of its own."""
    worth = np.random.default_rng(seed).normal(size=2**players)
    return lambda rows: worth[(rows @ (1 << np.arange(players))).astype(int)]


def solved(design: Design, game: Game) -> Values:
    return design.solve(game(design.coalitions))


def tree(players: int) -> Group:
    return halved([Group((player,)) for player in range(players)])


def orders_within(group: Group) -> Iterator[tuple[int, ...]]:
    """All orders in which the players of each group stay together."""
    if not group.parts:
        yield group.members
        return
    for parts in permutations(group.parts):
        whole: list[tuple[int, ...]] = [()]
        for part in parts:
            whole = [before + after for before in whole for after in orders_within(part)]
        yield from whole


def mean_over_orders(orders: list[tuple[int, ...]], game: Game) -> Floats:
    """The definition: what a player adds when it comes, averaged over orders."""
    players = len(orders[0])
    added = np.zeros(players)
    for order in orders:
        row = np.zeros((1, players), dtype=bool)
        for player in order:
            before = game(row)[0]
            row[0, player] = True
            added[player] += game(row)[0] - before
    return added / len(orders)


@pytest.mark.parametrize("players", [1, 2, 3, 6])
def test_exact_values_are_means_over_all_orders(players: int) -> None:
    game = random_game(players)
    expected = mean_over_orders(list(permutations(range(players))), game)
    assert solved(ExactDesign(players), game).values == pytest.approx(expected)


@pytest.mark.parametrize("players", [1, 2, 3, 5, 6])
def test_owen_values_are_means_over_the_orders_within_groups(players: int) -> None:
    game = random_game(players)
    expected = mean_over_orders(list(orders_within(tree(players))), game)
    assert solved(OwenDesign(tree(players)), game).values == pytest.approx(expected)


@pytest.mark.parametrize("players", [2, 7, 16])
def test_owen_values_are_those_of_shap(players: int) -> None:
    game = random_game(players)
    expected = shap_partition(players, game, 10_000)
    assert solved(OwenDesign(tree(players)), game).values == pytest.approx(expected)


@pytest.mark.parametrize("players", [2, 5, 8])
def test_exact_values_are_those_of_shap(players: int) -> None:
    game = random_game(players)
    background, here = np.zeros((1, players), dtype=bool), np.ones((1, players), dtype=bool)
    explainer = shap.ExactExplainer(game, shap.maskers.Independent(background))
    assert solved(ExactDesign(players), game).values == pytest.approx(explainer(here).values[0])


@pytest.mark.parametrize("players", [1, 2, 3, 9, 40])
def test_an_owen_design_has_as_many_coalitions_as_was_said(players: int) -> None:
    groups = tree(players)
    assert len(OwenDesign(groups).coalitions) == owen_evaluations(groups)


@pytest.mark.parametrize("flat", [True, False])
def test_random_orders_come_close_and_say_how_close(flat: bool) -> None:
    game = random_game(6)
    groups = tree(6)
    chosen = Group.of(list(groups.leaves())) if flat else groups
    orders = list(permutations(range(6))) if flat else list(orders_within(groups))
    expected = mean_over_orders(orders, game)
    found = solved(OrdersDesign(chosen, pairs=400, seed=1), game)
    assert found.standard_errors is not None
    assert np.abs((found.values - expected) / found.standard_errors).max() < 4


@pytest.mark.parametrize("method", [Method.AUTO, Method.PARTITION, Method.PERMUTATION])
@pytest.mark.parametrize("players", [1, 2, 12, 13, 40, 300])
def test_values_add_up_within_the_evaluations_allowed(method: Method, players: int) -> None:
    weights = np.random.default_rng(3).normal(size=players)

    def game(rows: Coalitions) -> Floats:
        linear: Floats = rows @ weights
        return np.tanh(linear) + linear**2

    chosen, design = design_for(tree(players), method, 128, seed=5)
    rows = design.coalitions
    assert not rows[0].any() and rows[1].all()
    assert len(np.unique(rows, axis=0)) == len(rows), "a coalition is evaluated twice"
    if chosen is not Method.EXACT:
        assert len(rows) <= 128
    found = solved(design, game)
    assert found.values.sum() == pytest.approx(game(rows[1:2])[0] - game(rows[:1])[0])


def test_the_same_seed_gives_the_same_values_and_another_others() -> None:
    game = random_game(13)
    first, again, other = (
        solved(design_for(tree(13), Method.PERMUTATION, 100, seed)[1], game).values for seed in (1, 1, 2)
    )
    assert (first == again).all() and (first != other).any()


def test_of_an_additive_game_every_method_finds_the_weights() -> None:
    weights = np.random.default_rng(0).normal(size=10)
    for method in (Method.EXACT, Method.PARTITION, Method.PERMUTATION):
        _, design = design_for(tree(10), method, 1_000, seed=0)
        assert solved(design, lambda rows: rows @ weights).values == pytest.approx(weights)


def shap_partition(players: int, game: Game, evaluations: int) -> Floats:
    """The values of shap's PartitionExplainer over the same binary tree."""

    class Masker(shap.maskers.Masker):
        shape = (1, players)
        clustering = scipy_tree(tree(players), players)

        def __call__(self, mask: Coalitions, row: Coalitions) -> tuple[Coalitions]:
            return (mask.reshape(1, -1),)

    explainer = shap.PartitionExplainer(game, Masker())
    values: Floats = explainer(
        np.ones((1, players)), max_evals=evaluations, batch_size=16, silent=True
    ).values[0]
    return values


def scipy_tree(groups: Group, players: int) -> Floats:
    """A binary tree in the form of `scipy.cluster.hierarchy`: rows of two parts, a distance, a size."""
    rows: list[list[float]] = []

    def place(group: Group) -> int:
        if not group.parts:
            return group.members[0]
        first, second = (place(part) for part in group.parts)
        rows.append([first, second, float(len(group.members)), float(len(group.members))])
        return players + len(rows) - 1

    place(groups)
    return np.array(rows)
