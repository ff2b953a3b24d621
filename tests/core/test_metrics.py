import math

import pytest

from crag_core.metrics import (
    Proportion,
    choice_occurs,
    chosen_label,
    claimed_truth,
    contains_answer,
    percentile,
)
from crag_core.types import Choice

CHOICES = (Choice("A", "ice"), Choice("B", "fresh snow"), Choice("C", "rain"))


def test_match_is_reported_in_both_letter_cases() -> None:
    assert contains_answer("A Politician.", ["politician"], case_sensitive=False)
    assert not contains_answer("A Politician.", ["politician"], case_sensitive=True)
    assert not contains_answer("A poet.", ["politician"], case_sensitive=False)
    assert not contains_answer("anything", [], case_sensitive=False)


@pytest.mark.parametrize(
    ("answer", "stated"),
    [
        ("B", "B"),
        ("b)", "B"),
        ("(B) fresh snow", "B"),
        ("**B**", "B"),
        ("B.\nBecause of the cold.", "B"),
        ("The correct answer is B.", "B"),
        ("The answer is (b).", "B"),
        ("Option A", "A"),
        ("A plant needs light.", None),
        ("The answer is a plant.", None),
        ("fresh snow", None),
        ("E", None),
        ("", None),
    ],
)
def test_the_strict_label_is_one_that_the_answer_states(answer: str, stated: str | None) -> None:
    assert chosen_label(answer, CHOICES) == stated


@pytest.mark.parametrize(
    ("answer", "occurs"),
    [("It is Fresh Snow.", True), ("B", True), ("A, B or C", True), ("Bees", False), ("rain", False)],
)
def test_the_lenient_choice_is_one_that_occurs(answer: str, occurs: bool) -> None:
    assert choice_occurs(answer, CHOICES, "B") is occurs


@pytest.mark.parametrize(
    ("answer", "any_case", "as_written"),
    [
        ("True", "true", None),
        ("This is false, though some say true.", "false", "false"),
        ("FALSE", "false", None),
        ("untrue", None, None),
    ],
)
def test_a_claims_truth_is_the_first_said(
    answer: str, any_case: str | None, as_written: str | None
) -> None:
    assert claimed_truth(answer, case_sensitive=False) == any_case
    assert claimed_truth(answer, case_sensitive=True) == as_written


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
