"""Splits that share no entity: what is learnt about a page must not be asked again."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components
from sklearn.model_selection import GroupShuffleSplit

from crag_core.errors import SettingsError
from training.labelled_pairs import LabelledPair


def entity_groups(pairs: Sequence[LabelledPair]) -> NDArray[np.int64]:
    """A number per pair: the same where a question or an entity is shared, also through others."""
    nodes: dict[tuple[str, str], int] = {}

    def node(kind: str, name: str) -> int:
        return nodes.setdefault((kind, name), len(nodes))

    edges = [
        (node("question", pair.group), node("entity", entity))
        for pair in pairs
        for entity in pair.entities or (pair.group,)
    ]
    starts, ends = np.array(edges).T
    graph = coo_array((np.ones(len(edges)), (starts, ends)), shape=(len(nodes), len(nodes)))
    _, component = connected_components(graph, directed=False)
    return np.array([component[nodes["question", pair.group]] for pair in pairs], dtype=np.int64)


def split_by_entity(
    pairs: Sequence[LabelledPair], share: float, seed: int
) -> tuple[list[LabelledPair], list[LabelledPair]]:
    """Pairs to train on and pairs held out, about `share` of the groups; no entity is in both.

    Raises SettingsError when one side would lack a label.
    """
    groups = entity_groups(pairs)
    if len(set(groups.tolist())) < 2:
        raise SettingsError("all questions are about the same entities: they cannot be split")
    splitter = GroupShuffleSplit(n_splits=1, test_size=share, random_state=seed)
    fitted, held_out = next(splitter.split(groups, groups=groups))
    sides = [pairs[place] for place in fitted], [pairs[place] for place in held_out]
    for name, side in zip(("training", "validation"), sides, strict=True):
        relevant = sum(pair.is_relevant for pair in side)
        if relevant in (0, len(side)):
            raise SettingsError(
                f"the {name} split has {len(side)} pairs, {relevant} of them relevant: an evaluator "
                "needs both labels; add sets, or change --validation-share"
            )
    return sides
