"""How well a head tells relevant passages of entities that it was not fitted on, and other ways."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import BaseCrossValidator, GroupKFold, LeaveOneGroupOut

from training.evaluator_test import AucDifference, auc_difference
from training.head_fitting import OTHER_WAYS, Fit, Floats, TrainingSet, head_scores

_FOLDS = 5
_FEWEST_OF_A_KIND = 20


@dataclass(frozen=True, slots=True)
class Quality:
    """AUC of some pairs, entities unseen, the bare cosine's, and how much more it is, paired by entity.

    `auc_left_out` is that of a set all of which was left out of the fit.
    """

    name: str
    pairs: int
    auc: float
    auc_cosine: float
    over_cosine: AucDifference
    auc_left_out: float | None = None


@dataclass(frozen=True, slots=True)
class Tried:
    """Another way over the same features: its AUC, entities unseen, and how much more the head has."""

    name: str
    auc: float
    head_over_it: AucDifference


def unseen_entities(
    examples: TrainingSet, measured: Sequence[TrainingSet], fit: Fit = head_scores
) -> list[Floats]:
    """Scores of each measured set, by fits to examples about other entities."""
    return _held_out(examples, measured, GroupKFold(_FOLDS), examples.entities, fit)


def unseen_sets(examples: TrainingSet, measured: Sequence[TrainingSet]) -> list[Floats] | None:
    """Scores of each measured set, by fits to the examples' other sets; None where there is but one."""
    if len(set(examples.datasets.tolist())) == 1:
        return None
    return _held_out(examples, measured, LeaveOneGroupOut(), examples.datasets, head_scores)


def qualities(measured: TrainingSet, scores: Floats, left_out: Floats | None) -> Iterator[Quality]:
    """All pairs, then each set, then each kind of question that has pairs enough of both labels."""
    relevant, everything = measured.is_relevant, np.ones(len(scores), dtype=bool)

    def of(name: str, rows: NDArray[np.bool_], unseen: Floats | None = None) -> Quality:
        def auc(values: Floats) -> float:
            return float(roc_auc_score(relevant[rows], values[rows]))

        over = auc_difference(
            relevant[rows], scores[rows], measured.cosines[rows], measured.entities[rows]
        )
        auc_left_out = None if unseen is None else auc(unseen)
        return Quality(name, int(rows.sum()), auc(scores), auc(measured.cosines), over, auc_left_out)

    yield of("all", everything)
    for name in dict.fromkeys(measured.datasets.tolist()):
        yield of(name, measured.datasets == name, left_out)
    for kind in dict.fromkeys(measured.kinds.tolist()):
        rows = measured.kinds == kind
        if min(relevant[rows].sum(), (~relevant[rows]).sum()) >= _FEWEST_OF_A_KIND:
            yield of(kind, rows)


def tried(examples: TrainingSet, measured: TrainingSet, scores: Floats) -> Iterator[Tried]:
    """Every other way beside the head, whose scores of the measured pairs are given."""
    relevant = measured.is_relevant
    for name, fit in OTHER_WAYS.items():
        (other,) = unseen_entities(examples, [measured], fit)
        over = auc_difference(relevant, scores, other, measured.entities)
        yield Tried(name, float(roc_auc_score(relevant, other)), over)


def _held_out(
    examples: TrainingSet,
    measured: Sequence[TrainingSet],
    splitter: BaseCrossValidator,
    groups: object,
    fit: Fit,
) -> list[Floats]:
    scores = [np.zeros_like(each.targets) for each in measured]
    for fitted, held_out in splitter.split(examples.features, groups=groups):
        score = fit(examples, fitted)
        for each, found in zip(measured, scores, strict=True):
            # whole questions are held out, so that a question's other pairs are too
            rows = np.isin(each.groups, examples.groups[held_out])
            found[rows] = score(each.features[rows])
    return scores
