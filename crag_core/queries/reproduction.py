"""The open reproduction's queries in its order, one request each: for comparing with its figures.

Yalavarthi 2026 (arXiv 2603.16169) and its released code; its known faults are kept on purpose.
"""

import re
from collections.abc import Iterator

from crag_core.queries.plan import SearchPlan, Sought
from crag_core.queries.wording import STOP_WORDS, word_set
from crag_core.types import SearchQuery, Strategy, Task

GENERIC_PAGES = word_set(
    "occupation religion genre country city sport director composer author producer "
    "screenwriter film album song book novel politician musician actor singer nationality "
    "capital father mother"
)
"""Titles of pages about a concept instead of the thing asked for."""

_LEAD_SENTENCES = 3
_SHORT_LEAD_CHARACTERS = 300
_ROLES = "director|composer|screenwriter|producer|author"
_TEMPLATES = tuple(
    re.compile(pattern, re.IGNORECASE)
    for pattern in (
        r"^what (?:is|was) (.+?)['\u2019]s? \w+",
        rf"^who (?:was|is) the (?:{_ROLES}) (?:of|for) (.+)",
        r"^who (?:directed|composed|wrote|created|produced) (.+)",
        r"^what genre is (.+)",
        r"^in what (?:city|country|state|region) (?:was|is) (.+?)(?: born)?$",
        r"^what sport does (.+?) play",
        r"^what is the \w+ of (.+)",
        r"^who is the \w+ of (.+)",
    )
)
_PEOPLE = (
    "politician", "footballer", "musician", "actor", "singer", "bishop", "author", "athlete",
)  # fmt: skip
_SUFFIXES = (
    (("occupation", "religion", "nationality", "born"), _PEOPLE),
    (("genre",), ("album", "film", "song", "EP", "soundtrack", "book")),
    (("director", "directed"), ("film", "movie")),
    (("composer", "composed"), ("film", "album", "opera")),
    (("screenwriter", "author", "wrote"), ("film", "novel", "book")),
    (("producer", "produced"), ("film", "album")),
    (("country",), ("municipality", "city", "town", "village")),
    (("city",), ("city", "town", "municipality")),
    (
        ("sport",),
        ("football club", "basketball team", "soccer team", "hockey league", "sports club"),
    ),
)
_CAPITALISED = re.compile(r"[A-Z][\w'.-]*(?:\s+[A-Z][\w'.-]*)*")
_QUESTION_WORD = re.compile(
    r"^(?:what|who|where|when|which|how|why)\s+(?:is|was|are|were|does|did)?\s*", re.I
)
_MOST_TYPED = 8
_CHOICE_WORDS = 4


def reproduction_plan(sought: Sought) -> SearchPlan:
    """Its queries in its order; the first that leads to a valid page ends the search."""
    question = sought.text.strip().rstrip("?").strip()
    if not question:
        return SearchPlan(())
    if sought.task is Task.CHOICE:
        return SearchPlan((), queries=tuple(_choice_queries(question)))
    entity = reproduction_entity(question)
    return SearchPlan((entity,), queries=tuple(_queries(question, entity, sought.hints)))


def reproduction_entity(question: str) -> str:
    """Its entity: by the first template that fits, else the first capitalised words, else the rest.

    >>> reproduction_entity("Which film came out first, Alien or Aliens")
    'Which'
    """
    for template in _TEMPLATES:
        if match := template.match(question):
            return match[1].strip()
    if match := _CAPITALISED.search(question):
        return match[0]
    return _QUESTION_WORD.sub("", question).strip() or question


def first_sentences(lead: str) -> str:
    """The first three of what its splitter takes for sentences: what ends with `. `."""
    return ". ".join(lead.strip().split(". ")[:_LEAD_SENTENCES])


def is_valid(entity: str, title: str, text: str) -> bool:
    """Its validation: text, no generic concept, no disambiguation, some word of the entity."""
    words = [word for word in entity.lower().split() if len(word) > 2 and word not in STOP_WORDS]
    return (
        bool(text.strip())
        and title.lower() not in GENERIC_PAGES
        and not reads_as_disambiguation(text)
        and (not words or any(word in text.lower() for word in words))
    )


def reads_as_disambiguation(text: str) -> bool:
    """Its test for disambiguation pages, which mistakes short pages that say what a word refers to.

    >>> reads_as_disambiguation("Schadenfreude refers to pleasure.")
    True
    """
    lower = text.lower()
    return "may refer to" in lower or ("refers to" in lower and len(text) < _SHORT_LEAD_CHARACTERS)


def _queries(question: str, entity: str, hints: tuple[str, ...]) -> Iterator[SearchQuery]:
    suffixes = _suffixes(question)
    yield SearchQuery(entity, Strategy.DIRECT, entity, "the entity's page")
    typed = [form for suffix in suffixes for form in (f"{entity} ({suffix})", f"{entity} {suffix}")]
    for title in typed[:_MOST_TYPED]:
        yield SearchQuery(title, Strategy.TYPED, entity, "suffix of the question's type")
    yield SearchQuery(entity, Strategy.SEARCH, entity, "full text")
    if suffixes:
        text = f"{entity} {suffixes[0]}"
        yield SearchQuery(text, Strategy.SEARCH, entity, "full text with the first suffix")
    described = re.compile(re.escape(entity) + r"\s*\(([^()]+)\)", re.IGNORECASE)
    for match in filter(None, map(described.search, hints)):
        yield SearchQuery(f"{entity} {match[1]}", Strategy.HINT, entity, "descriptor in the context")
        return


def _suffixes(question: str) -> tuple[str, ...]:
    words = question.lower()
    return next((found for keys, found in _SUFFIXES if any(key in words for key in keys)), ())


def _choice_queries(question: str) -> Iterator[SearchQuery]:
    words = [
        word
        for word in re.findall(r"[A-Za-z]+", question)
        if len(word) > 3 and word.lower() not in STOP_WORDS
    ][:_CHOICE_WORDS]
    for size in (3, 2):
        if len(words) >= size:
            yield SearchQuery(" ".join(words[:size]), Strategy.DIRECT, "", f"first {size} content words")
    yield SearchQuery(" ".join(words[:3]), Strategy.SEARCH, "", "first three content words")
    yield SearchQuery(question[:80], Strategy.SEARCH, "", "first 80 characters")
