"""The entities that a question's template finds, the innermost of nested ones first."""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from crag_core.queries.kinds import (
    ANY,
    AUTHOR,
    CAPITAL,
    COMPOSER,
    DIRECTOR,
    PERSON,
    PRODUCER,
    SCREENWRITER,
    QuestionKind,
    kind_of,
)
from crag_core.queries.templates import POSSESSIVE, PROPERTY_OF, TEMPLATES, YES_OR_NO
from crag_core.queries.wording import without_article

_NOUN = (
    "film|movie|documentary|novel|novella|book|short story|poem|play|song|single|album|ep|opera|musical|"
    "band|group|tv series|television series|tv show|series|show|sitcom|video game|game|episode|symphony|"
    "magazine|newspaper|painting|character|company|actor|actress|singer|footballer|politician|author|"
    "town|village|city|district|river|mountain|airline|airport|university|school"
)
_LEADING_NOUN = re.compile(
    rf"^(?:the )?(?:(?P<year>1[5-9]\d\d|20\d\d) )?(?P<noun>{_NOUN})s?,? (?:called |named |"
    rf"titled |entitled )?"
    r"(?=[\"'\u201c\u2018A-Z0-9\u00c0-\u00de])",
    re.IGNORECASE,
)
_NESTED = re.compile(
    r"^(?:the |an? )?(?P<property>[a-z][\w -]{2,40}?) (?:of|for|in|behind|from) (?P<rest>.+)$"
)
_LEADS_ON = (PERSON, DIRECTOR, AUTHOR, COMPOSER, SCREENWRITER, PRODUCER, CAPITAL)
"""Kinds whose property is an entity itself, of which something else may be asked."""

_LOWER_END = re.compile(r"(?: [a-z]+)+$")


@dataclass(frozen=True, slots=True)
class Matched:
    """An entity, the kind of question asked of it, the reason it was taken for one.

    `qualifiers` are those that the question itself gave, such as `1963 film`.
    """

    entity: str
    kind: QuestionKind
    reason: str
    qualifiers: tuple[str, ...] = ()


def matches(question: str) -> Iterator[Matched]:
    """Entities by the first template that fits a tidied question, best first; none when none does."""
    for template in TEMPLATES:
        match = template.pattern.match(question)
        if match is None:
            continue
        groups = match.groupdict()
        asked = groups.get("property") or ""
        if "a" in groups:
            kind = kind_of(asked)
            yield from (_with_noun(_outer(groups[side]), kind, template.name) for side in ("a", "b"))
            return
        yield from _candidates(match, asked, template.name)
        return


def _has_name(words: str) -> bool:
    """Whether the words have a capitalised one that is no abbreviation such as CEO."""
    return any(word[:1].isupper() and not word.isupper() for word in words.split())


def _candidates(match: re.Match[str], asked: str, name: str) -> Iterator[Matched]:
    entity, kind = match["entity"], kind_of(asked)
    if name == YES_OR_NO and not entity.islower():
        entity = _LOWER_END.sub("", entity)  # of `the Great Wall of China visible` the last is no name
    whole = match.string[match.start("property") :] if asked and name == PROPERTY_OF else ""
    if name == POSSESSIVE and kind is ANY:  # `Schrödinger's cat` is no property of Schrödinger
        yield Matched(match.string[match.start("entity") :], ANY, "what is X")
    if name == PROPERTY_OF and kind is ANY and _has_name(asked):
        yield Matched(without_article(whole), ANY, "what is X")  # the Prince of Wales
        yield Matched(without_article(entity), kind, name)
        return
    inner = list(_nested(entity, kind, name))
    yield from inner
    if whole and kind is ANY and not any("in turn" in each.reason for each in inner):
        yield Matched(without_article(whole), ANY, "what is X")


def _nested(entity: str, kind: QuestionKind, name: str) -> Iterator[Matched]:
    """The innermost entity of `the religion of the author of X`; it is where a search must begin."""
    nested = _NESTED.match(entity)
    if nested and (inner := kind_of(nested["property"])) in _LEADS_ON:
        yield from _nested(nested["rest"], inner, f"{name}, of {nested['property']} in turn")
        return
    owner, possessive, rest = entity.rpartition("'s ")
    if possessive and owner and rest.islower() and kind_of(rest) in _LEADS_ON:
        yield Matched(without_article(owner), kind_of(rest), f"{name}, of {rest} in turn")
        return
    yield _with_noun(entity, kind, name)


def _with_noun(entity: str, kind: QuestionKind, name: str) -> Matched:
    """`the 1963 film The Hunt` is The Hunt, of which the question itself says what it is."""
    entity = entity.strip(' ,"“”')
    named = _LEADING_NOUN.match(entity)
    if named and named["noun"].islower() and (rest := entity[named.end() :].strip(" '\"“”‘’")):
        noun, year = named["noun"].lower(), named["year"]
        qualifiers = (f"{year} {noun}", noun) if year else (noun,)
        own = kind_of(noun.split()[-1])
        return Matched(rest, kind if kind is not ANY else own, name, qualifiers)
    return Matched(entity, kind, name)


def _outer(entity: str) -> str:
    return re.sub(r"^(?:the film|the movie|the band|either|both) ", "", entity.strip(" ,.:"))
