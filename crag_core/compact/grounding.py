"""Grounding: a sub-question with the answers of earlier ones in the places that refer to them."""

import re
from collections.abc import Mapping

from crag_core.compact import references
from crag_core.compact.types import Rewriting, SubQuestion

_NAME = re.compile(r"\b(?:[^\W\d_a-z][\w'’.-]*|\d[\w.,-]*)")
_SPECIAL_TOKEN = re.compile(r"</?s>|<pad>|<unk>|<extra_id_\d+>|\[(?:CLS|SEP|PAD|UNK|MASK)\]")
_MAX_CHARACTERS = 600


def ground_marks(sub_question: SubQuestion, answers: Mapping[int, str]) -> tuple[str, tuple[str, ...]]:
    """The text with each `#k` filled, and the answers whose place in it only a word points to."""
    text, filled = references.with_places_filled(sub_question.text, answers)
    left = (place for place in sub_question.references if place not in filled and place in answers)
    return text, tuple(answers[place] for place in left)


def ground_by_rule(text: str, entities: tuple[str, ...]) -> str:
    """The text with its words that point back replaced one by one; what finds no place leads it.

    >>> ground_by_rule("When was this director born?", ("Mansoor Khan",))
    'When was Mansoor Khan born?'
    """
    for entity in entities:
        text = references.with_anaphor_filled(text, entity)
    return text


def is_faithful(rewriting: Rewriting, rewritten: str | None) -> bool:
    """Whether a rewriter's text may be asked instead of the rule's.

    The answer must stand in it, no other name or number of the question may be lost, none may be
    new, nothing may still point back, and no token of the model's own may show.
    """
    if not rewritten or not rewritten.strip() or len(rewritten) > _MAX_CHARACTERS:
        return False
    if _SPECIAL_TOKEN.search(rewritten) or references.has_anaphor(
        rewritten.replace(rewriting.entity, "")
    ):
        return False
    if rewriting.entity.casefold() not in rewritten.casefold():
        return False
    before = names_in(rewriting.question)
    after = names_in(rewritten)
    return before <= after and after <= before | names_in(rewriting.entity) | _words(rewriting.entity)


def is_clean(answer: str) -> bool:
    """Whether an extracted answer is fit to stand in a question: not blank, no token of a model."""
    return bool(answer.strip()) and not _SPECIAL_TOKEN.search(answer)


def names_in(text: str) -> set[str]:
    """The words of names, and the numbers, but for the first word: a capital in any question."""
    _, _, rest = text.strip().partition(" ")
    return {re.sub(r"['’]s$", "", name).strip(".,-'’").casefold() for name in _NAME.findall(rest)}


def _words(text: str) -> set[str]:
    return {word.strip(".,-'’").casefold() for word in text.split()}
