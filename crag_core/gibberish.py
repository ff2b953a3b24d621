"""Gibberish: what a model writes past the context it can handle, known by its first words."""

import re
from collections.abc import AsyncGenerator
from contextlib import aclosing

from crag_core.types import Completion

_JUDGED_WORDS = 16
"""So many words are held back until they are known to be words."""
_JUDGED_CHARACTERS = 160
_DIFFERENT_SHARE = 0.3
_ODD_SHARE = 0.3
_REPEATED = re.compile(r"(.)\1{11}|\b(\w+)(?:\W+\2\b){5}", re.DOTALL)
_LONGEST_WORD = 60
_USUAL = re.compile(r"[\s.,;:!?'\"()\[\]%&/+-]")


class Gibberish(Exception):
    """The completion is no language; raised before any of it was shown."""


def is_gibberish(text: str) -> bool:
    """Whether a text is no language: something over and over, symbols, or letters without an end.

    >>> is_gibberish("Henry Feilden was a Conservative politician, who sat for Blackburn from 1869.")
    False
    >>> is_gibberish("the the the the the the the"), is_gibberish("}}}##@@ {|~ ^^ ``` ||| <<>> __ $$")
    (True, True)
    """
    words = text.split()
    if not words:
        return False
    if _REPEATED.search(text):
        return True
    if len(words) >= _JUDGED_WORDS and len(set(words)) < _DIFFERENT_SHARE * len(words):
        return True
    odd = sum(not (char.isalnum() or _USUAL.fullmatch(char)) for char in text)
    if len(text) >= 20 and odd > _ODD_SHARE * len(text):
        return True
    return any(len(word) > _LONGEST_WORD and word.isascii() and word.isalpha() for word in words)


async def judged(completions: AsyncGenerator[Completion]) -> AsyncGenerator[Completion]:
    """The completion, its first words held back until they are known to be words; raises Gibberish."""
    held: list[Completion] = []
    async with aclosing(completions):
        async for completion in completions:
            held.append(completion)
            text = "".join(piece.text for piece in held)
            is_enough = len(text.split()) > _JUDGED_WORDS or len(text) > _JUDGED_CHARACTERS
            if not is_enough and completion.finish_reason is None:
                continue
            if is_gibberish(text):
                raise Gibberish(text)
            for piece in held:
                yield piece
            break
        async for completion in completions:
            yield completion
