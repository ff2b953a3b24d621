"""Calibration finds the thresholds that answers call for, within a budget, and knows how sure it is."""

import numpy as np
import pytest

from crag_core.errors import SettingsError
from crag_core.settings import ActionThresholds
from training.calibration import Outcomes, calibrate, trade_offs

FAR = ActionThresholds(upper=9.0, lower=-9.0)


def outcomes(count: int = 400, seed: int = 0) -> Outcomes:
    """CORRECT is right above 0.5, AMBIGUOUS between, INCORRECT below -0.5; else one in ten is."""
    rng = np.random.default_rng(seed)
    scores = rng.uniform(-1, 1, count)
    luck = rng.random((3, count)) < 0.1
    where = (scores >= 0.5, (scores >= -0.5) & (scores < 0.5), scores < -0.5)
    return Outcomes(
        scores, *((hit | lucky).astype(float) for hit, lucky in zip(where, luck, strict=True))
    )


def test_thresholds_lie_where_the_answers_turn() -> None:
    found = calibrate(outcomes(), FAR)
    assert found.chosen.thresholds.upper == pytest.approx(0.5, abs=0.05)
    assert found.chosen.thresholds.lower == pytest.approx(-0.5, abs=0.05)
    assert found.held_out.mean() > 0.9 and found.before.mean() < 0.65
    assert found.search_share_before == 1.0


def test_the_curve_never_promises_what_its_thresholds_do_not_give() -> None:
    made = outcomes(120, seed=3)
    for point in trade_offs(made):
        assert made.under(point.thresholds).mean() == pytest.approx(point.accuracy)
        assert made.search_share(point.thresholds) == pytest.approx(point.search_share)


def test_the_best_pair_is_found_among_all() -> None:
    made = outcomes(40, seed=5)
    cuts = [-2.0, *np.sort(made.scores), 2.0]
    best = max(
        made.under(ActionThresholds(upper=upper, lower=lower)).mean()
        for upper in cuts
        for lower in cuts
        if lower <= upper
    )
    assert max(point.accuracy for point in trade_offs(made)) == pytest.approx(best)


@pytest.mark.parametrize("budget", [0.0, 0.3, 0.6])
def test_a_search_budget_is_kept(budget: float) -> None:
    made = outcomes()
    found = calibrate(made, FAR, budget)
    assert made.search_share(found.chosen.thresholds) <= budget
    assert found.chosen.accuracy <= calibrate(made, FAR).chosen.accuracy


def test_noise_alone_promises_nothing_on_unseen_questions() -> None:
    rng = np.random.default_rng(1)
    noise = (rng.random((3, 300)) < 0.5).astype(float)
    found = calibrate(Outcomes(rng.normal(size=300), *noise), FAR)
    assert found.held_out.mean() < found.chosen.accuracy
    assert found.held_out.mean() == pytest.approx(0.5, abs=0.1)


def test_equal_scores_stay_together() -> None:
    made = Outcomes(np.zeros(30), np.ones(30), np.zeros(30), np.zeros(30))
    found = calibrate(made, FAR)
    assert found.chosen.accuracy == 1.0 and found.chosen.search_share == 0.0


def test_too_few_questions_are_refused() -> None:
    with pytest.raises(SettingsError, match="at least 20"):
        calibrate(outcomes(10), FAR)
