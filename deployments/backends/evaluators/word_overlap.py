"""Word overlap of question and passage: what embeddings blur and names decide."""

import math
import re
from collections.abc import Sequence
from itertools import pairwise

from crag_core.types import Passage

_WORD = re.compile(r"[\u3040-\u30ff\u3400-\u9fff]|[^\W_\u3040-\u30ff\u3400-\u9fff]+")
"""Runs of letters and digits; a character of a script without spaces is a word."""

_LIST = """
a an and are as at be been by can did do does for from had has have he her him his how in is it its
of on or s she than that the their them there they this to was were what when where which who whom
whose why will with would
"""
_FUNCTION_WORDS = frozenset(_LIST.split())
_OPENING_WORDS = 20

OVERLAP_FEATURES = (
    "content_in_text",
    "content_in_title",
    "content_in_either",
    "names_in_text",
    "names_in_title",
    "names_in_either",
    "names_in_opening",
    "all_names_in_either",
    "name_pairs_in_either",
    "longest_run",
    "title_in_question",
    "whole_title_in_question",
    "has_title",
    "log_passage_words",
    "log_question_words",
)
"""Names of the values that `word_overlap` returns, in order."""


def word_overlap(question: str, passage: Passage) -> tuple[float, ...]:
    """How far passage and title share the question's words, most values between 0 and 1.

    Content words are those that are no function words; names are capitalised ones or numbers, or all
    content words where nothing is capitalised.

    >>> overlap = word_overlap("Who wrote Emma?", Passage("Emma is a novel."))
    >>> overlap[OVERLAP_FEATURES.index("content_in_text")]
    0.5
    """
    asked = _WORD.findall(question)
    content = [word.casefold() for word in asked if word.casefold() not in _FUNCTION_WORDS]
    names = [
        word.casefold()
        for position, word in enumerate(asked)
        if (word[0].isdigit() or (word[0].isupper() and position > 0))
        and word.casefold() not in _FUNCTION_WORDS
    ] or content
    text = [word.casefold() for word in _WORD.findall(passage.text)]
    title = [word.casefold() for word in _WORD.findall(re.sub(r"\([^)]*\)", "", passage.title))]
    in_text, in_title = set(text), set(title)
    in_either = in_text | in_title
    pairs = _pairs(names)
    return (
        _share(content, in_text),
        _share(content, in_title),
        _share(content, in_either),
        _share(names, in_text),
        _share(names, in_title),
        _share(names, in_either),
        _share(names, {*text[:_OPENING_WORDS], *title}),
        float(_share(names, in_either) == 1.0),
        _share(pairs, {*_pairs(text), *_pairs(title)}) if pairs else _share(names, in_either),
        _longest_run(content, in_either) / max(len(content), 1),
        _share([word for word in title if word not in _FUNCTION_WORDS], set(content)),
        float(bool(title) and set(title) <= {word.casefold() for word in asked}),
        float(bool(title)),
        math.log1p(len(text)),
        math.log1p(len(asked)),
    )


def _share(words: Sequence[str], found_in: set[str]) -> float:
    return sum(word in found_in for word in words) / len(words) if words else 0.0


def _pairs(words: Sequence[str]) -> list[str]:
    return [f"{first} {second}" for first, second in pairwise(words)]


def _longest_run(words: Sequence[str], found_in: set[str]) -> int:
    longest = run = 0
    for word in words:
        run = run + 1 if word in found_in else 0
        longest = max(longest, run)
    return longest
