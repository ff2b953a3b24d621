"""Whether the engine's decisions are float32's: on which side of every threshold a score lies."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from benchmarks.engine.peers import Pairs
from deployments.backends.t5.t5_engine import DecisionSafety, T5Engine

MIN_NEAR_SHARE = 0.05
"""Fewer scores than this within epsilon of a threshold, and the agreement would prove little."""

_QUANTILES = (0.3, 0.7)
_MORE_QUANTILES = (0.3, 0.7, 0.4, 0.6, 0.5, 0.35, 0.65, 0.45, 0.55)


@dataclass(frozen=True, slots=True)
class Decisions:
    """Decisions on pairs apart from those that epsilon was measured on."""

    pairs: int
    thresholds: tuple[float, ...]
    epsilon: float
    near_share: float
    """Of the scores, how many lay within epsilon of a threshold and were computed again."""
    agreement: float
    agreement_without_safety: float
    largest_error: float

    @property
    def are_right(self) -> bool:
        """Whether every decision is float32's, and enough of them were close."""
        return self.agreement == 1.0 and self.near_share >= MIN_NEAR_SHARE


def decide(engine: T5Engine, known: Pairs, judged: Pairs) -> Decisions:
    """Judge pairs with the safety that the known pairs suggest, and leave it in the engine.

    Thresholds lie at the 30th and the 70th percentile of the scores in float32; where fewer than 5 %
    of the scores are near those two, more lie between them.
    """
    engine.safety = DecisionSafety()
    rounded, exact = engine.score_ids(judged), engine.exact_scores(judged)
    epsilon = 2 * engine.rounding_error(known)
    engine.safety = _safety(rounded, exact, epsilon)
    before = engine.rescored
    safe = engine.score_ids(judged)
    return Decisions(
        pairs=len(judged),
        thresholds=engine.safety.thresholds,
        epsilon=epsilon,
        near_share=(engine.rescored - before) / len(judged),
        agreement=agreement(safe, exact, engine.safety.thresholds),
        agreement_without_safety=agreement(rounded, exact, engine.safety.thresholds),
        largest_error=max(abs(a - b) for a, b in zip(rounded, exact, strict=True)),
    )


def agreement(scores: Sequence[float], exact: Sequence[float], thresholds: Sequence[float]) -> float:
    """Share of scores on the same side of every threshold."""
    same = [
        all((a >= limit) is (b >= limit) for limit in thresholds)
        for a, b in zip(scores, exact, strict=True)
    ]
    return sum(same) / len(same)


def _safety(rounded: Sequence[float], exact: Sequence[float], epsilon: float) -> DecisionSafety:
    values = torch.tensor(exact, dtype=torch.float64)
    for count in range(len(_QUANTILES), len(_MORE_QUANTILES) + 1):
        quantiles = torch.tensor(_MORE_QUANTILES[:count], dtype=torch.float64)
        safety = DecisionSafety(tuple(values.quantile(quantiles).tolist()), epsilon)
        if sum(map(safety.is_near, rounded)) >= MIN_NEAR_SHARE * len(rounded):
            break
    return safety
