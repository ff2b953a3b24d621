"""The extractor without weights, a heuristic: what the best pair says beyond what was asked.

A pair answers its own question, often in a sentence that repeats it. What the sentence adds is the
answer; names are cut out of it by their capitals, and by named entities where it adds several.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from crag_core.compact.answer_words import (
    STOP_WORDS,
    content,
    expected_labels,
    kinship_place,
    relations,
)
from crag_core.compact.grounding import names_in
from crag_core.compact.protocols import EntityFinder
from crag_core.compact.types import ExtractedAnswer, Reading, ScoredPair

_OVERLAP_WEIGHT = 0.6
_RELATION_WEIGHT = 0.5
_TYPE_WEIGHT = 0.2
_SHORT_WORDS = 4
_EDGES = " \t\"'“”‘’.,;:()[]"
_BETWEEN_NAMES = frozenset(
    ("of", "the", "de", "von", "van", "da", "di", "del", "der", "la", "le", "al", "el")
)
_KIN = re.compile(
    r"\bthe (?:(?P<parent>father|mother)|(?P<child>son|daughter|child)|(?P<sibling>brother|sister)) of\b"
)
_NAMED = ("PERSON", "ORG", "GPE")


def extract_by_rule(readings: Sequence[Reading], finder: EntityFinder) -> list[ExtractedAnswer | None]:
    """One answer per reading, out of the pair that fits its question best."""
    chosen = [_best_pair(reading) for reading in readings]
    texts = [
        "" if place is None else reading.pairs[place].pair.answer
        for reading, place in zip(readings, chosen, strict=True)
    ]
    return [
        None if place is None else _answer(reading, place, entities)
        for reading, place, entities in zip(readings, chosen, finder.entities(texts), strict=True)
    ]


def _best_pair(reading: Reading) -> int | None:
    """The pair that shares most words and relations with the question, and asks for the same kind."""
    wanted, meant = content(reading.question), relations(reading.question)
    labels = expected_labels(reading.question)

    def merit(found: ScoredPair) -> float:
        said = f"{found.pair.question} {found.pair.answer}"
        shared = len(wanted & content(said)) / max(1, len(wanted))
        related = len(meant & relations(said)) / max(1, len(meant))
        if _is_reversed(reading.question, found.pair.answer):
            return found.score - 1
        same_kind = bool(labels) and expected_labels(found.pair.question) == labels
        return (
            found.score
            + _OVERLAP_WEIGHT * shared
            + _RELATION_WEIGHT * related
            + _TYPE_WEIGHT * same_kind
        )

    places = range(len(reading.pairs))
    return max(places, key=lambda place: merit(reading.pairs[place]), default=None)


def _answer(reading: Reading, place: int, entities: Sequence[tuple[str, str]]) -> ExtractedAnswer | None:
    pair = reading.pairs[place].pair
    labels = expected_labels(reading.question)
    known = content(reading.question) | content(pair.question)
    if len(pair.answer.split()) <= _SHORT_WORDS:
        text = pair.answer
    else:
        text = _added(pair.answer, known, labels, entities)
        if "PERSON" in labels:
            people = [entity for entity, label in entities if label == "PERSON"]
            text = _one_name(text, people, reading.question)
    text = re.sub(r"['’]s$", "", text.strip(_EDGES)).strip(_EDGES)
    if not content(text):
        return None
    return ExtractedAnswer(text, place, reading.pairs[place].score)


def _is_reversed(question: str, answer: str) -> bool:
    """Whether an answer says of whom the one asked about is the father, not who his father is."""
    asked = _KIN.search(question)
    said = _KIN.search(answer)
    if asked is None or said is None or asked.lastgroup != said.lastgroup:
        return False
    names = names_in(question)
    return bool(names) and names <= content(answer[: said.start()])


@dataclass(frozen=True, slots=True)
class _Token:
    text: str
    is_new: bool

    @property
    def is_name(self) -> bool:
        bare = self.text.lstrip(_EDGES)
        return bool(bare) and (bare[0].isupper() or bare[0].isdigit())


def _added(
    answer: str, known: set[str], labels: Sequence[str], entities: Sequence[tuple[str, str]]
) -> str:
    """What an answer adds to what is known: its best run of new words."""
    tokens = [
        _Token(word, bool(content(word)) and not content(word) <= known) for word in answer.split()
    ]
    runs = _runs(tokens)
    fitting = [text for text, label in entities if label in labels and not content(text) <= known]
    if not runs:
        said = [text for text, label in entities if label in labels]
        return said[0] if said else answer

    def worth(run: tuple[int, int]) -> tuple[int, int, int]:
        words = tokens[run[0] : run[1]]
        text = " ".join(word.text for word in words)
        holds = any(entity in text for entity in fitting)
        return holds, sum(word.is_name for word in words), sum(word.is_new for word in words)

    start, end = max(runs, key=worth)
    text = " ".join(word.text for word in tokens[start:end])
    held = [entity for entity in fitting if entity in text]
    if held and not set(labels) & set(_NAMED):
        return held[0]
    return text


def _runs(tokens: Sequence[_Token]) -> list[tuple[int, int]]:
    """Runs of new words, small words between them included, names at their ends completed."""
    runs: list[tuple[int, int]] = []
    position = 0
    while position < len(tokens):
        if not tokens[position].is_new:
            position += 1
            continue
        end = position + 1
        while end < len(tokens) and (tokens[end].is_new or _joins(tokens, end)):
            end += 1
        start = position
        if tokens[position].is_name:
            while start > 0 and tokens[start - 1].is_name and not _ends(tokens[start - 1].text):
                start -= 1
        while end < len(tokens) and tokens[end - 1].is_name and tokens[end].is_name:
            end += 1
        runs.append((start, end))
        position = end
    return runs


def _joins(tokens: Sequence[_Token], position: int) -> bool:
    """Whether a known word stands within an answer: "Manuel I of Portugal and Eleanor"."""
    if tokens[position - 1].text[-1] in "'\"”’),;":
        return False
    following = tokens[position + 1] if position + 1 < len(tokens) else None
    word = tokens[position].text.strip(_EDGES).casefold()
    if word in _BETWEEN_NAMES or word == "and":
        return following is not None and (following.is_new or following.is_name)
    return tokens[position].is_name or (
        word in STOP_WORDS and following is not None and following.is_new
    )


def _ends(word: str) -> bool:
    """Whether a word closes what it belongs to, so that no name goes on behind it."""
    return word[-1] in "'\"”’)"


def _one_name(text: str, people: Sequence[str], question: str) -> str:
    """One of several names: of parents by the kinship asked for, else the first.

    Among other words ("the rapper Nicki Minaj and ...") named entities say where a name is.
    """
    others = [word for word in text.split() if word[:1].islower() and not _is_small(word)]
    held = [person for person in people if person in text]
    names = held if others and held else []
    names = names or [name for part in re.split(r",? and | & ", text) if (name := _capitals(part))]
    if not names:
        return text
    return names[kinship_place(question) if len(names) > 1 else 0]


def _is_small(word: str) -> bool:
    return word.strip(_EDGES) in _BETWEEN_NAMES or word == "and"


def _capitals(text: str) -> str:
    """From the first word that begins with a capital to the last one."""
    words = text.split()
    capital = [i for i, word in enumerate(words) if word.lstrip(_EDGES)[:1].isupper()]
    if not capital:
        return ""
    last = capital[-1]
    for before, after in pairwise(capital):
        between = words[before + 1 : after]
        if any(word.casefold() not in _BETWEEN_NAMES and not word[:1].isdigit() for word in between):
            last = before
            break
    return " ".join(words[capital[0] : last + 1])
