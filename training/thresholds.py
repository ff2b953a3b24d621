"""Thresholds out of labelled scores, where no answers are known."""

import numpy as np
from numpy.typing import NDArray
from sklearn.metrics import precision_recall_curve

from deployments.backends.evaluators.evaluator_manifest import EvaluatorThresholds

_UPPER_PRECISION = 0.8
"""Share of questions with a relevant best passage, among those whose best score reaches `upper`."""
_LOWER_MISSED = 0.1
"""Share of relevant passages below `lower`."""
_STRIP_BETA = 2.0
"""How much more a lost relevant strip weighs than a kept irrelevant one."""


def thresholds(
    is_relevant: NDArray[np.bool_], scores: NDArray[np.float32], groups: NDArray[np.str_]
) -> EvaluatorThresholds:
    """The thresholds that held-out scores call for, rounded to three places.

    `upper` is the lowest at which four in five questions reach it with a relevant best passage,
    since the trigger looks at a question's best passage. One relevant passage in ten stays below
    `lower`. `strip` tells relevant passages best, recall counting double (F2).
    """
    by_score = np.argsort(-scores, kind="stable")
    _, first = np.unique(groups[by_score], return_index=True)
    best = by_score[np.sort(first)]
    precision = np.cumsum(is_relevant[best]) / np.arange(1, len(best) + 1)
    precise = np.flatnonzero(precision >= _UPPER_PRECISION)
    upper = scores[best[precise[-1] if len(precise) else 0]]
    lower = np.quantile(scores[is_relevant], _LOWER_MISSED)
    precision, recall, cuts = precision_recall_curve(is_relevant, scores)
    beta = _STRIP_BETA**2
    f_beta = (1 + beta) * precision * recall / np.maximum(beta * precision + recall, 1e-9)
    return EvaluatorThresholds(
        upper=round(float(upper), 3),
        lower=round(float(min(lower, upper)), 3),
        strip=round(float(cuts[f_beta[:-1].argmax()]), 3),
    )
