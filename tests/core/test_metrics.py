import math

import pytest

from crag_core.metrics import (
    Proportion,
    choice_occurs,
    chosen_label,
    claimed_truth,
    contains_answer,
    exact_match,
    f1_score,
    normalised,
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


@pytest.mark.parametrize(
    ("text", "plain"),
    [
        ("Paris", "paris"),  # letter case
        ("ÉCOLE Straße", "école straße"),  # ... of other alphabets; accents stay
        ("U.S.A.", "usa"),  # punctuation goes without a blank in its place
        ("twenty-one", "twentyone"),
        ("O'Neil & Sons (1999)", "oneil sons 1999"),
        ("$3,000.50", "300050"),
        ("!?.,;:'\"()[]{}<>@#$%^&*-_=+|\\/~`", ""),
        ("“Jaws” – 1975’s", "“jaws” – 1975’s"),  # beyond ASCII it stays
        ("a man, an owl and the sea", "man owl and sea"),  # articles
        ("The The", ""),
        ("theatre banana anthem", "theatre banana anthem"),  # ... whole words alone
        ("vitamin A", "vitamin"),
        ("A.B. the-end", "ab theend"),  # ... once punctuation is gone
        ("a-ha", "aha"),
        ("  two \t words\n here ", "two words here"),  # blanks, also others than the space
        ("one\u00a0two\u2028three", "one two three"),
        ("", ""),
        (None, ""),
    ],
)
def test_texts_are_compared_without_what_does_not_count(text: str | None, plain: str) -> None:
    assert normalised(text) == plain


@pytest.mark.parametrize(
    ("prediction", "answer", "exact", "f1"),
    [
        ("The Eiffel Tower.", "eiffel tower", True, 1.0),
        ("Tower Eiffel", "Eiffel Tower", False, 1.0),  # F1 knows no order
        ("Albert Einstein", "Einstein", False, 2 / 3),
        ("New York City", "York, New Jersey", False, 2 / 3),
        ("no no no", "no", False, 0.5),  # a word counts as often as both have it
        ("no no", "no no yes", False, 0.8),
        ("yes", "no", False, 0.0),
        ("yes, it is", "yes", False, 0.5),  # yes and no are words like others
        ("", "", True, 1.0),  # both empty
        ("the", "!", True, 1.0),
        (None, "", True, 1.0),
        (None, "Paris", False, 0.0),  # no prediction is an empty one
        ("Paris", "the", False, 0.0),  # one empty
    ],
)
def test_exact_match_and_f1_are_squads(
    prediction: str | None, answer: str, exact: bool, f1: float
) -> None:
    assert exact_match(prediction, answer) is exact
    assert f1_score(prediction, answer) == pytest.approx(f1)
    assert f1_score(answer, prediction or "") == pytest.approx(f1), "F1 is symmetric"
