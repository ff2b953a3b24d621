"""The extractor without weights, a heuristic: the best pair's answer, narrowed to a named entity."""

import re
from collections.abc import Sequence

from crag_core.compact.protocols import EntityFinder
from crag_core.compact.types import ExtractedAnswer, Reading, ScoredPair

_PEOPLE = ("PERSON",)
_PLACES = ("GPE", "LOC", "FAC")
_EXPECTED: tuple[tuple[re.Pattern[str], tuple[str, ...]], ...] = tuple(
    (re.compile(pattern, re.IGNORECASE), labels)
    for pattern, labels in (
        (r"^(when|(in |on )?(what|which) (year|date|day|month|century))|\bdate of\b", ("DATE",)),
        (r"^how (many|much|old|long|far|tall)\b", ("CARDINAL", "QUANTITY", "MONEY", "PERCENT", "DATE")),
        (r"\b(nationality|citizenship)\b", ("NORP", "GPE")),
        (r"\b(country|countries|nation)\b", ("GPE", "NORP", "LOC")),
        (r"\b(city|town|county|state|province|capital|region|continent|river)\b", _PLACES),
        (r"^where\b|\bplace (of|where)\b|\blocat", (*_PLACES, "ORG")),
        (r"\b(university|college|school|company|studio|label|publisher|team|club|band|party|employer)\b",
         ("ORG", "GPE", "FAC")),
        (r"\b(film|movie|book|novel|song|album|award|prize|show|series|game)s?\b(?! (direct|was|is))",
         ("WORK_OF_ART", "ORG", "EVENT")),
        (r"^(who|whom|whose)\b", (*_PEOPLE, "ORG", "NORP")),
        (r"\b(director|author|writer|composer|performer|singer|mother|father|spouse|wife|husband|son|"
         r"daughter|child|sibling|brother|sister|founder|creator|producer|actor|actress|player|"
         r"president|king|queen)\b", _PEOPLE),
    )
)  # fmt: skip
_COPULA = re.compile(r"\b(?:is|was|are|were|by|in|from|of|called|named)\b")
_WORD = re.compile(r"\w+")
_SHORT_WORDS = 6
_STOP = frozenset(
    _WORD.findall(
        "a an the of in on at to for by with from and or is was are were be been did does do has have "
        "had who whom whose what which when where why how many much that this it its as film movie"
    )
)
_OVERLAP_WEIGHT = 0.5


def extract_by_rule(readings: Sequence[Reading], finder: EntityFinder) -> list[ExtractedAnswer | None]:
    """One answer per reading: of the pair that shares most with the question, the entity it asks for."""
    chosen = [_best_pair(reading) for reading in readings]
    texts = [_stated(reading, place) for reading, place in zip(readings, chosen, strict=True)]
    entities = finder.entities(texts)
    return [
        _narrowed(reading, place, text, found)
        for reading, place, text, found in zip(readings, chosen, texts, entities, strict=True)
    ]


def expected_labels(question: str) -> tuple[str, ...]:
    """The OntoNotes labels that an answer to the question may have; none where nothing is known.

    >>> expected_labels("When was he born?")
    ('DATE',)
    """
    return next((labels for pattern, labels in _EXPECTED if pattern.search(question)), ())


def _stated(reading: Reading, place: int | None) -> str:
    return "" if place is None else reading.pairs[place].pair.answer


def _best_pair(reading: Reading) -> int | None:
    wanted = _content(reading.question)

    def merit(found: ScoredPair) -> float:
        shared = wanted & _content(f"{found.pair.question} {found.pair.answer}")
        return found.score + _OVERLAP_WEIGHT * len(shared) / max(1, len(wanted))

    places = range(len(reading.pairs))
    return max(places, key=lambda place: merit(reading.pairs[place]), default=None)


def _narrowed(
    reading: Reading, place: int | None, answer: str, entities: Sequence[tuple[str, str]]
) -> ExtractedAnswer | None:
    if place is None or not answer.strip():
        return None
    asked = _content(reading.question)
    new = [(text, label) for text, label in entities if not _content(text) <= asked]
    labels = expected_labels(reading.question)
    fitting = [text for text, label in new if label in labels]
    if fitting:
        text = fitting[0]
    elif len(answer.split()) <= _SHORT_WORDS:
        text = answer
    elif new and not labels:
        text = new[0][0]
    else:
        text = _after_copula(answer)
    text = re.sub(r"['’]s$", "", text.strip().rstrip(".,;: "))
    return ExtractedAnswer(text, place, reading.pairs[place].score) if _WORD.search(text) else None


def _after_copula(answer: str) -> str:
    match = _COPULA.search(answer)
    return answer[match.end() :] if match and answer[match.end() :].strip(" .") else answer


def _content(text: str) -> set[str]:
    return {word for word in _WORD.findall(text.casefold()) if word not in _STOP}
