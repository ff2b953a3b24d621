"""Classes of tokens: what they are to question and passage, by the names in the question."""

import re
from collections.abc import Iterator, Sequence

import numpy as np

from crag_core.explaining import ClassValue, Name, Side, TokenClass
from crag_core.queries.wording import QUESTION_WORDS, STOP_WORDS
from explainability.coalitions import Floats
from explainability.players import Player

_WORD = re.compile(r"[\u3040-\u30ff\u3400-\u9fff]|[^\W_\u3040-\u30ff\u3400-\u9fff]+")
_POSSESSIVE = re.compile(r"['\u2019]s\b")


def token_classes(
    players: Sequence[Player], question: str, read: str, names: Sequence[Name]
) -> list[TokenClass]:
    """One class per player; `names` are the question's, `read` is all that the passage says.

    A token of the passage is in both when it says a word of a name of the question.
    """
    said = set(words_of(read))
    named = {word for name in names for word in words_of(question[name.start : name.end])}

    def class_of(player: Player) -> TokenClass:
        if player.side is Side.SEPARATOR:
            return TokenClass.SEPARATOR
        words = set(words_of(player.text))
        if player.side is not Side.QUESTION:
            return TokenClass.ENTITY_IN_BOTH if words & named else TokenClass.OTHER
        name = _name_at(player, names)
        if name is not None:
            words = words or set(words_of(question[name.start : name.end]))
            return TokenClass.ENTITY_IN_BOTH if words & said else TokenClass.ENTITY_MISSING
        is_asking = any(word in QUESTION_WORDS for word in _every_word(player.text))
        return TokenClass.QUESTION_WORD if is_asking else TokenClass.OTHER

    return [class_of(player) for player in players]


def class_values(classes: Sequence[TokenClass], values: Floats) -> tuple[ClassValue, ...]:
    """What the tokens of each class add, together and on average; no class without a token."""
    found = []
    for name in TokenClass:
        tokens = [place for place, each in enumerate(classes) if each is name]
        if tokens:
            own = values[tokens]
            found.append(
                ClassValue(
                    name, tuple(tokens), float(own.sum()), float(own.mean()), float(np.abs(own).mean())
                )
            )
    return tuple(found)


def _name_at(player: Player, names: Sequence[Name]) -> Name | None:
    return next((name for name in names if name.start < player.end and player.start < name.end), None)


def words_of(text: str) -> Iterator[str]:
    """Words with content, as they compare."""
    return (word for word in _every_word(text) if word not in STOP_WORDS)


def _every_word(text: str) -> list[str]:
    return [word.casefold() for word in _WORD.findall(_POSSESSIVE.sub("", text))]
