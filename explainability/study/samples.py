"""Samples of a study: one passage of one question each, from sets whose passages come with them."""

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.datasets import read_rows
from crag_core.errors import SettingsError
from crag_core.strips import excerpt
from crag_core.types import Document, Passage

SETS = ("popqa", "arc_challenge")
"""PopQA asks about names; ARC's science questions seldom do: another domain."""

_FIELD = "internal"
_FEWEST_WORDS = 5


@dataclass(frozen=True, slots=True)
class Sample:
    """A question with one of its passages, and what a PopQA question asks of whom."""

    id: str
    set_name: str
    question: str
    passage: Passage
    subject: str = ""
    relation: str = ""


def candidates(
    data: Path, sets: Sequence[str], max_words: int, seed: int, *, whole_sentences: bool = True
) -> list[Sample]:
    """One passage of every question, then a second of each, and so on; shuffled, always the same.

    Passages end with a sentence at `max_words` words at most, or with that word. Raises SettingsError
    when a set is missing or not of its form.
    """
    rounds: list[list[Sample]] = []
    chance = random.Random(seed)
    for name in sets:
        try:
            for row in read_rows(data, name):
                found = list(_of(row, name, max_words, whole_sentences))
                chance.shuffle(found)
                for place, sample in enumerate(found):
                    if place == len(rounds):
                        rounds.append([])
                    rounds[place].append(sample)
        except (FileNotFoundError, ValueError) as error:
            raise SettingsError(str(error)) from error
    for each in rounds:
        chance.shuffle(each)
    return [sample for each in rounds for sample in each]


def _of(row: dict[str, Any], set_name: str, max_words: int, whole_sentences: bool) -> Iterator[Sample]:
    try:
        for place, given in enumerate(row[_FIELD]):
            text = _cut(given["text"], max_words, whole_sentences)
            if len(text.split()) >= _FEWEST_WORDS:
                yield Sample(
                    f"{set_name}/{row['id']}/{place}",
                    set_name,
                    row["question"],
                    Passage(text, given["title"] or ""),
                    row.get("subj", ""),
                    row.get("prop", ""),
                )
    except (KeyError, TypeError) as error:
        raise ValueError(f"set {set_name} has a question without {_FIELD} passages: {error}") from error


def _cut(text: str, max_words: int, whole_sentences: bool) -> str:
    words = text.split()
    if not whole_sentences:
        return " ".join(words[:max_words])
    # a first sentence that is longer is cut all the same: attributions need short passages
    led = excerpt(Document("", text), max_words).text if text.strip() else ""
    return led if len(led.split()) <= max_words else " ".join(words[:max_words])
