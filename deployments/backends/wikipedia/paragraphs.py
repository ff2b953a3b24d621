"""The paragraphs of a page's plain text."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace

from crag_core.types import Document

_HEADING = re.compile(r"^=+ .* =+$")
_MIN_WORDS = 4
_MAX_PARAGRAPHS = 100
_LEAD_CHARACTERS = 2_000


def paragraph_documents(page: Document) -> Sequence[Document]:
    """One document a paragraph, numbered after the page's id; at most 100, without headings."""
    return [
        replace(page, id=f"{page.id}#{number}", text=text)
        for number, text in enumerate(_paragraphs(page.text), start=1)
        if number <= _MAX_PARAGRAPHS
    ]


def first_paragraphs(text: str) -> str:
    """The first paragraphs of a page, to stand for a lead that it lacks.

    >>> first_paragraphs("== Early life ==\\nHe was born in Blackburn, Lancashire.")
    'He was born in Blackburn, Lancashire.'
    """
    taken: list[str] = []
    for paragraph in _paragraphs(text):
        if taken and sum(map(len, taken)) + len(paragraph) > _LEAD_CHARACTERS:
            break
        taken.append(paragraph)
    return "\n".join(taken)[:_LEAD_CHARACTERS]


def _paragraphs(text: str) -> Iterator[str]:
    for line in map(str.strip, text.split("\n")):
        if not _HEADING.match(line) and (len(line.split()) >= _MIN_WORDS or not line.isascii()):
            yield line
