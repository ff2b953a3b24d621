"""Answer metrics, pure: match, choice and claim accuracy, exact match, F1; an interval for a share."""

import math
import re
import string
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from crag_core.types import Choice

_ARTICLES = re.compile(r"\b(a|an|the)\b")
_NO_PUNCTUATION = str.maketrans("", "", string.punctuation)
_LEADS = re.compile(r"^[\s\"'(\[*]*([A-Ea-e1-5])(?=[).:\],*\n]|\s*$)")
_STATES = re.compile(
    r"(?:[Aa]nswer|[Oo]ption|[Cc]hoice)(?: is)?:?[\s\"'\[*]*\(?([A-E1-5]|(?<=\()[a-e])\b"
)
_TRUTH = re.compile(r"\b(true|false)\b")


def contains_answer(prediction: str, answers: Iterable[str], *, case_sensitive: bool) -> bool:
    """Whether any gold alias occurs in the prediction (CRAG's PopQA accuracy).

    The original compares case-sensitively, the reproduction in lower case.

    >>> contains_answer("He was a Politician.", ["politician"], case_sensitive=False)
    True
    """
    if case_sensitive:
        return any(answer in prediction for answer in answers)
    lowered = prediction.lower()
    return any(answer.lower() in lowered for answer in answers)


def normalised(text: str | None) -> str:
    """Lower case, without ASCII punctuation and articles, blanks collapsed (SQuAD's evaluation).

    >>> normalised("The  Quick, brown fox!")
    'quick brown fox'
    """
    plain = (text or "").lower().translate(_NO_PUNCTUATION)
    return " ".join(_ARTICLES.sub(" ", plain).split())


def exact_match(prediction: str | None, answer: str) -> bool:
    """Whether both are equal once normalised; no prediction counts as an empty one."""
    return normalised(prediction) == normalised(answer)


def f1_score(prediction: str | None, answer: str) -> float:
    """Harmonic mean of token precision and recall; 1 when both are empty, 0 when one is.

    >>> f1_score("Albert Einstein", "Einstein")
    0.6666666666666666
    """
    predicted, gold = normalised(prediction).split(), normalised(answer).split()
    if not predicted or not gold:
        return float(predicted == gold)
    shared = (Counter(predicted) & Counter(gold)).total()
    return 2 * shared / (len(predicted) + len(gold))


def choice_occurs(prediction: str, choices: Iterable[Choice], gold_label: str) -> bool:
    """Whether the right option's text or its letter occurs in the prediction (the reproduction's ARC).

    Generous: a prediction that names every option is right.

    >>> choice_occurs("It is B.", [Choice("A", "ice"), Choice("B", "snow")], "B")
    True
    """
    texts = [choice.text.lower() for choice in choices if choice.label == gold_label]
    lowered = prediction.lower()
    letter = re.search(rf"(?<!\w){re.escape(gold_label)}(?!\w)", prediction)
    return letter is not None or any(text in lowered for text in texts)


def chosen_label(prediction: str, choices: Iterable[Choice]) -> str | None:
    """The one label that the prediction states: at its beginning, or as "the answer is"; else None.

    >>> chosen_label("The answer is (b).", [Choice("A", "ice"), Choice("B", "snow")])
    'B'
    >>> chosen_label("A plant needs light.", [Choice("A", "ice"), Choice("B", "snow")])
    """
    found = _LEADS.search(prediction) or _STATES.search(prediction)
    label = found.group(1).upper() if found else ""
    return label if any(choice.label == label for choice in choices) else None


def claimed_truth(prediction: str, *, case_sensitive: bool) -> str | None:
    """`true` or `false`, whichever the prediction says first; case-sensitively only in lower case.

    >>> claimed_truth("False. It is not true.", case_sensitive=False)
    'false'
    >>> claimed_truth("True", case_sensitive=True)
    """
    found = _TRUTH.search(prediction if case_sensitive else prediction.lower())
    return found.group(1) if found else None


@dataclass(frozen=True, slots=True)
class Proportion:
    """A share with its 95 % Wilson interval."""

    successes: int
    total: int

    @property
    def share(self) -> float:
        """The share itself; not a number when nothing was counted."""
        return self.successes / self.total if self.total else math.nan

    @property
    def interval(self) -> tuple[float, float]:
        """The Wilson score interval, which holds near 0 and 1 too."""
        if not self.total:
            return (math.nan, math.nan)
        z, n, p = 1.959964, self.total, self.share
        centre = (p + z * z / (2 * n)) / (1 + z * z / n)
        half = z * math.sqrt(p * (1 - p) / n + z * z / (4 * n * n)) / (1 + z * z / n)
        return (max(0.0, centre - half), min(1.0, centre + half))


def percentile(values: Sequence[float], share: float) -> float:
    """The value below which `share` of the values lie, by nearest rank."""
    if not values:
        return math.nan
    ranked = sorted(values)
    return ranked[max(0, math.ceil(share * len(ranked)) - 1)]
