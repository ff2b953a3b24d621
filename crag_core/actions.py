"""The action trigger: scores in, action out (CRAG, section 4.3)."""

from collections.abc import Iterable

from crag_core.settings import ActionThresholds
from crag_core.types import Action, EvidenceQuality, Score


def trigger_action(scores: Iterable[Score | None], thresholds: ActionThresholds) -> Action:
    """Decide from the best score: one reliable document is enough to trust retrieval.

    `None` marks an empty document, which decides nothing. No score at all is INCORRECT.

    >>> trigger_action([-1.2, 0.6], ActionThresholds(upper=0.592, lower=-0.995))
    <Action.CORRECT: 'correct'>
    >>> trigger_action([None], ActionThresholds(upper=0.592, lower=-0.995))
    <Action.INCORRECT: 'incorrect'>
    """
    best = max((score for score in scores if score is not None), default=float("-inf"))
    if best >= thresholds.upper:
        return Action.CORRECT
    if best >= thresholds.lower:
        return Action.AMBIGUOUS
    return Action.INCORRECT


def evidence_quality(
    evidence_scores: Iterable[Score | None], document_scores: Iterable[Score | None], upper: float
) -> EvidenceQuality:
    """Grade the evidence used: `strong` when a document or a strip of it reaches the upper threshold."""
    used = list(evidence_scores)
    if not used:
        return EvidenceQuality.NONE
    if any(score is not None and score >= upper for score in [*used, *document_scores]):
        return EvidenceQuality.STRONG
    return EvidenceQuality.WEAK
