"""Action thresholds out of answers: each question answered under each action, and its best score.

The thresholds are chosen that give the most right answers, with at most a stated share of questions
searching the web. CORRECT is the action that does not search.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from sklearn.model_selection import KFold

from crag_core.errors import SettingsError
from crag_core.settings import ActionThresholds

_FOLDS = 5
_SEED = 0
_FEWEST_QUESTIONS = 20

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Outcomes:
    """One entry per question: its best score, and how right its answer is under each action."""

    scores: Floats
    correct: Floats
    ambiguous: Floats
    incorrect: Floats

    def __len__(self) -> int:
        return len(self.scores)

    def part(self, places: NDArray[np.int64]) -> "Outcomes":
        """Some of the questions."""
        fields = (self.scores, self.correct, self.ambiguous, self.incorrect)
        return Outcomes(*(values[places] for values in fields))

    def under(self, thresholds: ActionThresholds) -> Floats:
        """How right each answer is when the trigger decides by these thresholds."""
        return np.where(
            self.scores >= thresholds.upper,
            self.correct,
            np.where(self.scores >= thresholds.lower, self.ambiguous, self.incorrect),
        )

    def search_share(self, thresholds: ActionThresholds) -> float:
        """The share of questions that search."""
        return float((self.scores < thresholds.upper).mean())


@dataclass(frozen=True, slots=True)
class TradeOff:
    """The best accuracy for a share of questions that search, and the thresholds that give it."""

    search_share: float
    accuracy: float
    thresholds: ActionThresholds


@dataclass(frozen=True, slots=True)
class Calibration:
    """The thresholds chosen, what they give on questions they were not chosen on, and the curve.

    `held_out` and `before` are per question, in order: under thresholds of the other folds, and under
    those in force until now.
    """

    chosen: TradeOff
    curve: tuple[TradeOff, ...]
    held_out: Floats
    before: Floats
    search_share_before: float


def calibrate(
    outcomes: Outcomes, current: ActionThresholds, max_search_share: float = 1.0
) -> Calibration:
    """The thresholds with the most right answers within the search budget, and how they generalise.

    Raises SettingsError when there are too few questions to choose by.
    """
    if len(outcomes) < _FEWEST_QUESTIONS:
        raise SettingsError(
            f"{len(outcomes)} questions were answered under all three actions: thresholds need at least "
            f"{_FEWEST_QUESTIONS}"
        )
    held_out = np.zeros(len(outcomes))
    folds = KFold(_FOLDS, shuffle=True, random_state=_SEED)
    for fitted, unseen in folds.split(outcomes.scores):
        best = best_within(trade_offs(outcomes.part(fitted)), max_search_share)
        held_out[unseen] = outcomes.part(unseen).under(best.thresholds)
    curve = trade_offs(outcomes)
    return Calibration(
        chosen=best_within(curve, max_search_share),
        curve=tuple(curve),
        held_out=held_out,
        before=outcomes.under(current),
        search_share_before=outcomes.search_share(current),
    )


def trade_offs(outcomes: Outcomes) -> list[TradeOff]:
    """For each share of searching questions the best accuracy, fewest searches first.

    Questions sorted by score fall into INCORRECT, AMBIGUOUS and CORRECT at two cuts; for each upper cut
    the best lower one is known from the cuts before it.
    """
    order = np.argsort(outcomes.scores, kind="stable")
    ranked = outcomes.part(order)
    cuts = [0, *(np.flatnonzero(np.diff(ranked.scores) > 0) + 1).tolist(), len(ranked)]
    correct, ambiguous, incorrect = (
        np.concatenate([[0.0], np.cumsum(values)])
        for values in (ranked.correct, ranked.ambiguous, ranked.incorrect)
    )
    found: list[TradeOff] = []
    best_lower = 0
    for upper in cuts:
        if incorrect[upper] - ambiguous[upper] > incorrect[best_lower] - ambiguous[best_lower]:
            best_lower = upper
        right = (
            incorrect[best_lower]
            + (ambiguous[upper] - ambiguous[best_lower])
            + (correct[-1] - correct[upper])
        )
        thresholds = ActionThresholds(
            upper=_between(ranked.scores, upper), lower=_between(ranked.scores, best_lower)
        )
        found.append(TradeOff(upper / len(ranked), float(right / len(ranked)), thresholds))
    return found


def best_within(curve: list[TradeOff], max_search_share: float) -> TradeOff:
    """The most accurate point within the budget; of equals the one with the fewest searches."""
    within = [point for point in curve if point.search_share <= max_search_share]
    return max(within, key=lambda point: (point.accuracy, -point.search_share))


def _between(scores: Floats, place: int) -> float:
    """A threshold that leaves `place` scores below it, rounded where that changes nothing."""
    if place == 0:
        return round(float(scores[0]) - 0.001, 3)
    if place == len(scores):
        return round(float(scores[-1]) + 0.001, 3)
    low, high = float(scores[place - 1]), float(scores[place])
    rounded = round((low + high) / 2, 3)
    return rounded if low < rounded <= high else high
