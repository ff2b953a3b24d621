import pytest

from crag_core.actions import evidence_quality, trigger_action
from crag_core.settings import ActionThresholds
from crag_core.types import Action, EvidenceQuality

POPQA = ActionThresholds(upper=0.592, lower=-0.995)


@pytest.mark.parametrize(
    ("scores", "action"),
    [
        ([], Action.INCORRECT),
        ([None], Action.INCORRECT),
        ([None, None, 0.6], Action.CORRECT),
        ([0.592], Action.CORRECT),
        ([0.5919999], Action.AMBIGUOUS),
        ([-0.995], Action.AMBIGUOUS),
        ([-0.9950001], Action.INCORRECT),
        ([-5.0, 0.7, -5.0], Action.CORRECT),
        ([-5.0, 0.0, -5.0], Action.AMBIGUOUS),
        ([float("-inf")], Action.INCORRECT),
    ],
)
def test_one_reliable_document_decides(scores: list[float | None], action: Action) -> None:
    assert trigger_action(scores, POPQA) is action


def test_equal_thresholds_leave_no_room_for_ambiguous() -> None:
    same = ActionThresholds(upper=0.0, lower=0.0)
    assert trigger_action([0.0], same) is Action.CORRECT
    assert trigger_action([-0.001], same) is Action.INCORRECT


@pytest.mark.parametrize(
    ("evidence", "documents", "quality"),
    [
        ([], [0.9], EvidenceQuality.NONE),
        ([0.1], [-0.5], EvidenceQuality.WEAK),
        ([0.6], [], EvidenceQuality.STRONG),
        ([0.1], [0.592], EvidenceQuality.STRONG),
        ([None], [], EvidenceQuality.WEAK),
    ],
)
def test_evidence_is_strong_only_at_the_upper_threshold(
    evidence: list[float | None], documents: list[float | None], quality: EvidenceQuality
) -> None:
    assert evidence_quality(evidence, documents, POPQA.upper) is quality
