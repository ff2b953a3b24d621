"""From a method and a bound on evaluations to a design."""

from crag_core.explaining import Method
from explainability.coalitions import Design
from explainability.exact import MOST_PLAYERS, ExactDesign
from explainability.groups import Group
from explainability.orders import OrdersDesign
from explainability.owen import OwenDesign, owen_evaluations


def design_for(tree: Group, method: Method, max_evaluations: int, seed: int) -> tuple[Method, Design]:
    """The method that `auto` stands for, and its design over a binary tree of players.

    Only `exact` may exceed `max_evaluations`; more players than it takes get it refused (ValueError).
    Where not even one order of all players and its reverse fits, players share their group's value.
    """
    players = len(tree.members)
    if method is Method.AUTO:
        method = Method.EXACT if players <= MOST_PLAYERS else Method.PARTITION
    if method is Method.EXACT:
        return method, ExactDesign(players)
    if method is Method.PARTITION and owen_evaluations(tree) <= max_evaluations:
        return method, OwenDesign(tree)
    fitting = tree.coarsened(max(1, max_evaluations // 2))
    leaves = list(fitting.leaves())
    if method is Method.PERMUTATION:
        fitting = Group.of(leaves)
    pairs = max(1, max_evaluations // (2 * len(leaves)))
    return method, OrdersDesign(fitting, pairs, seed)
