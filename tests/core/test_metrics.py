import math

import pytest

from crag_core.metrics import Proportion, contains_answer, percentile


def test_match_is_reported_in_both_letter_cases() -> None:
    assert contains_answer("A Politician.", ["politician"], case_sensitive=False)
    assert not contains_answer("A Politician.", ["politician"], case_sensitive=True)
    assert not contains_answer("A poet.", ["politician"], case_sensitive=False)
    assert not contains_answer("anything", [], case_sensitive=False)


def test_the_interval_holds_the_share_and_stays_within_bounds() -> None:
    # 7 of 10: Wilson interval by the textbook formula
    assert Proportion(7, 10).interval == pytest.approx((0.3968, 0.8922), abs=1e-4)
    assert Proportion(0, 20).interval[0] == 0.0
    assert Proportion(20, 20).interval[1] == pytest.approx(1.0)
    assert math.isnan(Proportion(0, 0).share)


def test_percentiles_by_nearest_rank() -> None:
    assert percentile([3.0, 1.0, 2.0], 0.5) == 2.0
    assert percentile([1.0, 2.0, 3.0, 4.0], 0.95) == 4.0
    assert math.isnan(percentile([], 0.5))
