"""The rules of the knowledge base: which pairs are kept, which repaired, which rejected and why.

Each pair is judged by itself: one bad pair never costs its passage the others.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from crag_core.compact.references import has_anaphor, with_anaphor_filled

_MAX_QUESTION_WORDS = 40
_MAX_ANSWER_WORDS = 60
_META = re.compile(
    r"\b(the|this|that|given|above|following) (text|passage|article|document|excerpt|paragraph|content|"
    r"information|title|context|sentence)\b",
    re.IGNORECASE,
)
_VAGUE = re.compile(
    r"\b(?P<what>the (?:film|movie|book|novel|song|album|band|group|team|club|company|school|university|"
    r"town|village|series|show|game|actor|actress|director|author|writer|singer|person|subject|"
    r"character|event|place|river|building|station))(?P<owns>'s)?(?=[\s?.,]|$)"
    r"(?! (?:of|in|that|who|which|called|named|titled|by|from|with|where|for|about|on|at|\"))"
    r"(?! [A-Z0-9\"“'])",
    re.IGNORECASE,
)
_LEADING_PRONOUN = re.compile(r"^(?:He|She|It|They)\b(?!')")
_LEADING_POSSESSIVE = re.compile(r"^(?:His|Her|Its|Their)\b")
_DISAMBIGUATOR = re.compile(r"\s*\([^()]*\)$")
_SPACES = re.compile(r"\s+")
_WORD = re.compile(r"\w+")
_EDGES = " \t\n\"'“”‘’.,;:"


class PairFlaw(StrEnum):
    """Why a pair is not in the base: the closed list."""

    BLANK = "blank"
    TOO_LONG = "too_long"
    META = "asks_about_the_text"
    NO_ENTITY = "names_nothing"
    POINTS_BACK = "points_back"
    NOT_VERBATIM = "answer_not_in_passage"
    ECHO = "answer_is_the_question"
    DUPLICATE = "duplicate"


@dataclass(frozen=True, slots=True)
class JudgedPair:
    """A pair as it goes into the base, or with the flaw that keeps it out."""

    question: str
    answer: str
    flaw: PairFlaw | None = None
    was_repaired: bool = False


def judged(
    question: object,
    answer: object,
    *,
    title: str,
    passage: str,
    entities: Sequence[str] = (),
    verbatim: bool,
) -> JudgedPair:
    """One pair, repaired where that needs no guess.

    Words that point back become the title; with `verbatim` the answer must stand in the passage, in
    whose spelling it is kept. A question must name an entity, the title, or a number.
    """
    asked, said = _one_line(question), _one_line(answer)
    if not asked or not said.strip(_EDGES):
        return JudgedPair(asked, said, PairFlaw.BLANK)
    if len(asked.split()) > _MAX_QUESTION_WORDS or len(said.split()) > _MAX_ANSWER_WORDS:
        return JudgedPair(asked, said, PairFlaw.TOO_LONG)
    if _META.search(asked):
        return JudgedPair(asked, said, PairFlaw.META)
    name = _DISAMBIGUATOR.sub("", title).strip() or title.strip()
    repaired = _with_name(asked, name)
    if has_anaphor(repaired) and not (name and name.casefold() in repaired.casefold()):
        return JudgedPair(asked, said, PairFlaw.POINTS_BACK)
    if not repaired.endswith("?"):
        repaired = f"{repaired.rstrip('.!')}?"
    if not _names_something(repaired, [name, *entities]):
        return JudgedPair(asked, said, PairFlaw.NO_ENTITY)
    if verbatim:
        kept = _as_in(passage, said.strip(_EDGES)) or ""
    else:
        kept = _LEADING_PRONOUN.sub(lambda _: name, _LEADING_POSSESSIVE.sub(lambda _: f"{name}'s", said))
    if not kept:
        return JudgedPair(repaired, said, PairFlaw.NOT_VERBATIM)
    if set(_WORD.findall(kept.casefold())) <= set(_WORD.findall(repaired.casefold())):
        return JudgedPair(repaired, kept, PairFlaw.ECHO)
    return JudgedPair(repaired, kept, was_repaired=(repaired, kept) != (asked, said))


def fact_key(question: str, answer: str) -> str:
    """What two pairs have in common that state the same fact in the same words."""
    return "\n".join(" ".join(_WORD.findall(text.casefold())) for text in (question, answer))


def _one_line(value: object) -> str:
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        return ""
    return _SPACES.sub(" ", str(value)).strip()


def _with_name(question: str, name: str) -> str:
    """The question with its first word that points back, or vague noun, named by the title."""
    if not name or name.casefold() in question.casefold():
        return question
    if has_anaphor(question):
        return with_anaphor_filled(question, name)
    return _VAGUE.sub(lambda match: f"{match['what']} {name}{match['owns'] or ''}", question, count=1)


def _names_something(question: str, names: Sequence[str]) -> bool:
    folded = question.casefold()
    if any(name and name.casefold() in folded for name in names):
        return True
    _, _, rest = question.partition(" ")
    return re.search(r"\b[^\W\d_a-z]\w+|\d", rest) is not None


def _as_in(passage: str, answer: str) -> str | None:
    """The answer as the passage spells it, whatever case and spaces; `None` where it is not there."""
    pattern = r"\s+".join(re.escape(word) for word in answer.split())
    found = re.search(rf"(?<!\w){pattern}(?!\w)", passage, re.IGNORECASE) if pattern else None
    return _SPACES.sub(" ", found[0]) if found else None
