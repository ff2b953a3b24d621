"""What the rows of a study say: means with intervals, and what is tested."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.stats import spearmanr

from benchmarks.quality.statistics import Difference, Estimate, estimate, paired_difference
from crag_core.explaining import TokenClass
from crag_core.types import Action
from explainability.study.counterfactuals import Change
from explainability.study.rows import Row

ACTIONS = tuple(str(action) for action in (Action.CORRECT, Action.AMBIGUOUS, Action.INCORRECT))

_RESAMPLES = 2_000
_SEED = 0
_FEWEST = 5
"""Fewer samples than this are told as a count, without a mean."""


@dataclass(frozen=True, slots=True)
class ClassFinding:
    """One class in some samples: the mean value of a token, and the mean strength; per sample."""

    token_class: TokenClass
    signed: Estimate
    absolute: Estimate


@dataclass(frozen=True, slots=True)
class Hypothesis:
    """Does entity alignment explain more of the score than semantic similarity?

    `alignment` and `similarity` are shares of the scores' variance (R squared) that each explains beyond
    the other; `difference` is that of the two, with its bootstrap interval over samples.
    """

    alignment: float
    similarity: float
    difference: Estimate
    n: int

    @property
    def holds(self) -> bool:
        """Beyond noise."""
        return self.difference.low > 0


@dataclass(frozen=True, slots=True)
class ChangeFinding:
    """One kind of change: how the score moved, and from which action to which."""

    change: Change
    moved: Estimate
    flips: NDArray[np.int_]
    """[from action, to action], in the order of ACTIONS."""

    @property
    def flipped(self) -> float:
        """The share of samples whose action changed."""
        return 1.0 - float(np.trace(self.flips)) / max(int(self.flips.sum()), 1)


def class_findings(rows: Sequence[Row]) -> list[ClassFinding]:
    """Every class that occurs, in the order of TokenClass."""
    found = []
    for token_class in TokenClass:
        values = [own for row in rows if (own := row.values(token_class))]
        if values:
            found.append(
                ClassFinding(
                    token_class,
                    estimate([float(np.mean(own)) for own in values]),
                    estimate([float(np.mean(np.abs(own))) for own in values]),
                )
            )
    return found


def names_against_other_words(rows: Sequence[Row]) -> Difference | None:
    """How much stronger a token of a shared name is than any other word, in the same sample."""
    both = [
        (named, other)
        for row in rows
        if (named := row.values(TokenClass.ENTITY_IN_BOTH)) and (other := row.values(TokenClass.OTHER))
    ]
    if len(both) < _FEWEST:
        return None
    strength = [[float(np.mean(np.abs(values))) for values in pair] for pair in both]
    return paired_difference([pair[0] for pair in strength], [pair[1] for pair in strength])


def hypothesis(rows: Sequence[Row]) -> Hypothesis | None:
    """The test, over the rows whose question has a name."""
    told = [row for row in rows if row.alignment is not None]
    if len(told) < 3 * _FEWEST:
        return None
    table = np.array([(row.alignment or 0.0, row.similarity, row.score) for row in told])
    alignment, similarity = _unique_shares(table)
    random = np.random.default_rng(_SEED)
    picks = random.integers(len(table), size=(_RESAMPLES, len(table)))
    shares = np.array([_unique_shares(table[pick]) for pick in picks])
    low, high = np.quantile(shares[:, 0] - shares[:, 1], (0.025, 0.975))
    difference = Estimate(alignment - similarity, float(low), float(high), len(table))
    return Hypothesis(alignment, similarity, difference, len(table))


def change_findings(rows: Sequence[Row]) -> list[ChangeFinding]:
    """Every kind of change that was made."""
    found = []
    for change in Change:
        made = [(row, row.changes[change]) for row in rows if change in row.changes]
        if made:
            flips = np.zeros((len(ACTIONS), len(ACTIONS)), dtype=np.int_)
            for row, after in made:
                flips[ACTIONS.index(row.action), ACTIONS.index(after.action)] += 1
            moved = estimate([after.score - row.score for row, after in made])
            found.append(ChangeFinding(change, moved, flips))
    return found


def by_entity_type(rows: Iterable[Row]) -> dict[str, Estimate]:
    """The mean value of a token of a shared name, by the label of the question's first name."""
    values: dict[str, list[float]] = {}
    for row in rows:
        if own := row.values(TokenClass.ENTITY_IN_BOTH):
            values.setdefault(row.entity_type, []).append(float(np.mean(own)))
    enough = {label: own for label, own in values.items() if len(own) >= _FEWEST}
    return {
        label: estimate(enough[label]) for label in sorted(enough, key=lambda each: -len(enough[each]))
    }


def agreement(rows: Sequence[Row], other: Callable[[Row], Sequence[float]]) -> Estimate | None:
    """The rank correlation of a sample's values with those of another method, over the samples that
    have both."""
    found = [
        float(spearmanr([token.value for token in row.tokens], other(row)).statistic)
        for row in rows
        if len(other(row)) > 1
    ]
    finite = [correlation for correlation in found if np.isfinite(correlation)]
    return estimate(finite) if finite else None


def _unique_shares(table: NDArray[np.float64]) -> tuple[float, float]:
    """What each of the first two columns explains of the third beyond the other: R squared lost
    without it."""
    both = _explained(table[:, :2], table[:, 2])
    return both - _explained(table[:, 1:2], table[:, 2]), both - _explained(table[:, :1], table[:, 2])


def _explained(columns: NDArray[np.float64], target: NDArray[np.float64]) -> float:
    """R squared of a least-squares fit with a constant."""
    design = np.column_stack([columns, np.ones(len(target))])
    fitted = design @ np.linalg.lstsq(design, target, rcond=None)[0]
    spread = float(((target - target.mean()) ** 2).sum())
    return 1.0 - float(((target - fitted) ** 2).sum()) / spread if spread else 0.0
