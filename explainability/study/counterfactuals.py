"""Counterfactuals: the same pair with another name, with another sense, or asked in other words."""

import re
from collections.abc import Sequence
from dataclasses import replace
from enum import StrEnum

from crag_core.queries.wording import STOP_WORDS
from crag_core.types import Passage
from explainability.study.samples import Sample


class Change(StrEnum):
    """What is changed about a pair, and what is kept."""

    ENTITY = "entity swapped, sense kept"
    SENSE = "entity kept, sense swapped"
    WORDING = "question reworded"


_REWORDED = {
    "author": "Which writer wrote {subject}?",
    "capital": "Which city is the capital of {subject}?",
    "capital of": "{subject} is the capital of what?",
    "composer": "Who composed {subject}?",
    "country": "Which country does {subject} lie in?",
    "director": "Who directed {subject}?",
    "father": "Whose child is {subject}?",
    "genre": "To which genre does {subject} belong?",
    "mother": "Which woman gave birth to {subject}?",
    "occupation": "What does {subject} do for a living?",
    "place of birth": "Where was {subject} born?",
    "producer": "Who produced {subject}?",
    "religion": "Which faith does {subject} follow?",
    "screenwriter": "Who wrote the screenplay of {subject}?",
    "sport": "Which sport is {subject} known for?",
}
"""PopQA's relations, asked in other words."""

_LETTER = r"[^\W_]"


def changed(sample: Sample, others: Sequence[Sample]) -> dict[Change, Sample]:
    """The changes that can be made; a swap needs the subject in the passage.

    The first of `others` that fits gives another subject of the same relation, and the first of another
    relation gives another sense.
    """
    found: dict[Change, Sample] = {}
    if template := _REWORDED.get(sample.relation):
        found[Change.WORDING] = replace(sample, question=template.format(subject=sample.subject))
    if not _says_subject(sample):
        return found
    alike = (o for o in others if o.relation == sample.relation and o.subject != sample.subject)
    if (other := next(alike, None)) is not None:
        found[Change.ENTITY] = replace(sample, passage=_renamed(sample, other.subject))
    unlike = (o for o in others if o.relation != sample.relation and _says_subject(o))
    if (other := next(unlike, None)) is not None:
        found[Change.SENSE] = replace(sample, passage=_renamed(other, sample.subject))
    return found


def _says_subject(sample: Sample) -> bool:
    return bool(sample.subject) and re.search(_whole(sample.subject), sample.passage.text) is not None


def _renamed(sample: Sample, subject: str) -> Passage:
    """The sample's passage about another subject: its whole name, and each word of it by itself."""
    words = [
        word
        for word in sample.subject.split()
        if word.casefold() not in STOP_WORDS and word[:1].isupper()
    ]
    # longest first, in one pass: what was put in must not be replaced again
    pattern = "|".join(_whole(name) for name in (sample.subject, *sorted(words, key=len, reverse=True)))

    def renamed(text: str) -> str:
        return re.sub(
            pattern,
            lambda found: subject if found[0] == sample.subject else subject.split()[-1],
            text,
        )

    return Passage(renamed(sample.passage.text), renamed(sample.passage.title))


def _whole(name: str) -> str:
    """A pattern for the name, not as a part of a longer word."""
    return rf"(?<!{_LETTER}){re.escape(name)}(?!{_LETTER})"
