"""The validation pass: whether a page is what was looked for, judged from its title and lead."""

import re

from crag_core.queries.kinds import QuestionKind
from crag_core.queries.wording import STOP_WORDS, base_title, folded

_LEAST_SHARE = 0.5
"""Of an entity's words, the share that a page must have for it to be about the entity."""

_LISTS_MEANINGS = re.compile(
    r"\b(?:may|can|could)(?: also)? (?:refer to|mean|stand for)\b(?:.{0,40}:)?\s*$", re.IGNORECASE
)


def significant_words(entity: str) -> frozenset[str]:
    """The words of a name that tell it from others; all of them where none does.

    >>> sorted(significant_words("The Lord of the Rings"))
    ['lord', 'rings']
    >>> sorted(significant_words("It"))
    ['it']
    """
    words = frozenset(folded(entity).split())
    return words - STOP_WORDS or words


def share_of_entity(entity: str, title: str, lead: str) -> float:
    """The share of an entity's significant words that stand in a page's title or lead, 0 to 1.

    A script without blanks has one long word, which is looked for as it is.
    """
    words = significant_words(entity)
    if not words:
        return 1.0
    page = f"{folded(title)} {folded(lead)}"
    there = frozenset(page.split())
    found = sum(word in there or (not word.isascii() and word in page) for word in words)
    return found / len(words)


def is_about(entity: str, title: str, lead: str) -> bool:
    """Whether a page has text and enough of the entity's words; without an entity every text will do."""
    return bool(lead.strip()) and share_of_entity(entity, title, lead) >= _LEAST_SHARE


def is_shortened(entity: str, title: str) -> bool:
    """Whether a title leaves out a word of the entity: then the page's lead must have it.

    >>> is_shortened("Volodymyr O. Kravets", "Volodymyr Kravets")
    True
    """
    return significant_words(title) < significant_words(entity)


def has_title_of(entity: str, title: str) -> bool:
    """Whether a title, its qualifier aside, is the entity.

    >>> has_title_of("ghost", "Ghost (1990 film)")
    True
    """
    return folded(entity) in {folded(title), folded(base_title(title))}


def is_expected(entity: str, kind: QuestionKind, title: str, lead: str) -> bool:
    """Whether a page found under a name is the thing asked for, and not a concept of that name.

    The page `It` about a pronoun is no book that somebody wrote.
    """
    return is_about(entity, title, lead) and kind.fits(f"{title} {lead}")


def lists_meanings(lead: str) -> bool:
    """Whether a lead ends as that of a disambiguation page does, for wikis without the page property.

    >>> lists_meanings("Mercury may refer to:")
    True
    >>> lists_meanings("Schadenfreude refers to pleasure at the misfortune of others.")
    False
    """
    first, _, _ = lead.strip().partition("\n")
    return bool(_LISTS_MEANINGS.search(first))


def match_of(
    entity: str, kind: QuestionKind, question_words: frozenset[str], title: str, lead: str
) -> tuple[bool, bool, int, float]:
    """How well a page fits, to order pages by, the best having the greatest value.

    Its title is the entity; its kind fits; the words of its qualifier that the question has, such as
    a year; the share of the entity's words that it has.
    """
    qualifier = set(folded(title).split()) - set(folded(base_title(title)).split())
    return (
        has_title_of(entity, title),
        kind.fits(f"{title} {lead}"),
        len(qualifier & question_words),
        share_of_entity(entity, title, lead),
    )
