"""How well an evaluator tells relevant passages: by question set and by what is asked for."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import groupby

import numpy as np
from numpy.typing import NDArray
from sklearn.metrics import roc_auc_score

from crag_core.actions import trigger_action
from crag_core.settings import ActionThresholds
from crag_core.types import Action
from deployments.backends.batching.pair_scorer import PairScorer, score_passages
from training.labelled_pairs import LabelledPair

_RESAMPLES = 500
_SEED = 0

Floats = NDArray[np.float32]
Bools = NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Slice:
    """One part of the pairs; `auc` is None where it has one label only.

    `accuracy` takes a score above 0 for relevant, as the targets -1 and +1 have it. `confusion` counts
    pairs by label and by the action that the passage alone would cause.
    """

    name: str
    pairs: int
    relevant: int
    auc: float | None
    accuracy: float
    confusion: dict[str, dict[Action, int]]


@dataclass(frozen=True, slots=True)
class AucDifference:
    """How much more AUC one score has than another on the same pairs, with its 95 % interval."""

    mean: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.mean:+.3f} ({self.low:+.3f} to {self.high:+.3f})"


def scored_by(
    scorer: PairScorer, pairs: Sequence[LabelledPair], progress: Callable[[int], None]
) -> Floats:
    """The score of every pair, in order, one question at a time; `progress` is told the pairs done.

    An empty passage, which no evaluator scores, counts as the lowest score there is.
    """
    scores: list[float | None] = []
    for question, group in groupby(pairs, lambda pair: pair.question):
        passages = [pair.passage for pair in group]
        scores += [scored.score for scored in score_passages(scorer, question, passages)]
        progress(len(scores))
    lowest = min((score for score in scores if score is not None), default=0.0)
    return np.array([lowest if score is None else score for score in scores], dtype=np.float32)


def slices(pairs: Sequence[LabelledPair], scores: Floats, thresholds: ActionThresholds) -> list[Slice]:
    """All pairs, then each set, then each kind of question of each set, largest first."""
    names = [("all", f"set {pair.dataset}", f"{pair.dataset}: {pair.kind}") for pair in pairs]
    found: list[Slice] = []
    for level in range(3):
        members: dict[str, list[int]] = {}
        for place, levels in enumerate(names):
            members.setdefault(levels[level], []).append(place)
        for name, places in sorted(members.items(), key=lambda item: -len(item[1])):
            labels = np.array([pairs[place].is_relevant for place in places])
            found.append(_slice(name, labels, scores[places], thresholds))
    return found


def auc_difference(
    labels: Bools, first: Floats, second: Floats, groups: NDArray[np.int64]
) -> AucDifference:
    """What `first` has more AUC than `second`: a bootstrap over whole groups, so that it is paired."""
    rng = np.random.default_rng(_SEED)
    _, numbers = np.unique(groups, return_inverse=True)
    members = np.split(np.argsort(numbers, kind="stable"), np.cumsum(np.bincount(numbers))[:-1])
    differences = []
    for _ in range(_RESAMPLES):
        drawn = np.concatenate([members[i] for i in rng.integers(len(members), size=len(members))])
        if 0 < labels[drawn].sum() < len(drawn):
            differences.append(
                roc_auc_score(labels[drawn], first[drawn]) - roc_auc_score(labels[drawn], second[drawn])
            )
    low, high = np.quantile(differences, [0.025, 0.975])
    mean = roc_auc_score(labels, first) - roc_auc_score(labels, second)
    return AucDifference(float(mean), float(low), float(high))


def _slice(name: str, labels: Bools, scores: Floats, thresholds: ActionThresholds) -> Slice:
    actions = [trigger_action([float(score)], thresholds) for score in scores]
    confusion = {
        label: {
            action: sum(
                taken is action and is_relevant is (label == "relevant")
                for taken, is_relevant in zip(actions, labels.tolist(), strict=True)
            )
            for action in Action
        }
        for label in ("relevant", "irrelevant")
    }
    has_both = 0 < labels.sum() < len(labels)
    return Slice(
        name=name,
        pairs=len(labels),
        relevant=int(labels.sum()),
        auc=float(roc_auc_score(labels, scores)) if has_both else None,
        accuracy=float(((scores > 0) == labels).mean()),
        confusion=confusion,
    )
