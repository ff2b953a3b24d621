"""Intervals and paired tests over questions: bootstrap, exact McNemar, sign flips."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.stats import binomtest, bootstrap, permutation_test

from crag_core.metrics import Proportion

_RESAMPLES = 9_999
_BATCH = 500
_SEED = 0


@dataclass(frozen=True, slots=True)
class Estimate:
    """A mean with its 95 % interval."""

    mean: float
    low: float
    high: float
    n: int


@dataclass(frozen=True, slots=True)
class Difference:
    """How much more the first of two methods has on the same questions: mean, interval, p."""

    mean: float
    low: float
    high: float
    p: float
    n: int

    @property
    def is_better(self) -> bool:
        """Beyond noise: the interval lies above zero."""
        return self.low > 0

    @property
    def is_worse(self) -> bool:
        """Beyond noise: the interval lies below zero."""
        return self.high < 0


def estimate(values: Sequence[float]) -> Estimate:
    """The mean and its percentile-bootstrap interval; Wilson's where all are right, or all wrong."""
    mean = float(np.mean(values)) if len(values) else float("nan")
    if mean in (0.0, 1.0):  # resampling equal values would find no doubt
        low, high = Proportion(round(mean * len(values)), len(values)).interval
    else:
        low, high = _interval(values)
    return Estimate(mean, low, high, len(values))


def paired_difference(first: Sequence[float], second: Sequence[float]) -> Difference:
    """What `first` has more than `second`, both in the order of the same questions.

    The interval is a bootstrap over questions. p is McNemar's exact test where all values are 0 or 1,
    else that of signs flipped at random; both two-sided. Raises ValueError where lengths differ.
    """
    ours, theirs = np.asarray(first, dtype=float), np.asarray(second, dtype=float)
    if ours.shape != theirs.shape:
        raise ValueError(f"paired values differ in number: {len(ours)} and {len(theirs)}")
    differences = ours - theirs
    low, high = _interval(differences)
    mean = float(differences.mean()) if len(differences) else float("nan")
    return Difference(mean, low, high, _p(differences, np.concatenate([ours, theirs])), len(ours))


def _interval(values: Sequence[float] | np.ndarray) -> tuple[float, float]:
    numbers = np.asarray(values, dtype=float)
    if len(numbers) < 2 or np.all(numbers == numbers[0]):
        point = float(numbers.mean()) if len(numbers) else float("nan")
        return point, point
    found = bootstrap(
        (numbers,), np.mean, n_resamples=_RESAMPLES, batch=_BATCH, method="percentile",
        rng=np.random.default_rng(_SEED),
    ).confidence_interval  # fmt: skip
    return float(found.low), float(found.high)


def _p(differences: np.ndarray, values: np.ndarray) -> float:
    changed = differences[differences != 0]
    if len(changed) < 2:  # one difference is as likely with either sign
        return 1.0
    if np.isin(values, (0.0, 1.0)).all():
        return float(binomtest(int((changed > 0).sum()), len(changed)).pvalue)
    return float(
        permutation_test(
            (differences,), np.mean, permutation_type="samples", n_resamples=_RESAMPLES, batch=_BATCH,
            rng=np.random.default_rng(_SEED),
        ).pvalue
    )  # fmt: skip
