"""Real pairs: PopQA's questions with the passages retrieved for them, and the strips of those."""

from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import typer
from tokenizers import Tokenizer

from benchmarks.datasets import read_rows
from benchmarks.engine.pairs import END_ID, FIRST_WORD_ID, LONGEST
from crag_core.settings import RefinementSettings
from crag_core.strips import decompose
from crag_core.types import Document

_NAME = "popqa"
_TEMPLATE = "{question} [SEP] {passage}"
"""How the CRAG authors' evaluator reads a pair."""


def real_pairs(data: Path, tokenizer: Path, vocabulary: int, count: int) -> list[list[int]]:
    """Token ids of so many different pairs, question by question, the end mark last.

    The tokenizer may be another model's: random weights need real lengths and real repetitions of
    tokens, not the right ones. Raises typer.BadParameter when its ids do not fit, or pairs are too few.
    """
    path = tokenizer / "tokenizer.json"
    if not path.is_file():
        raise typer.BadParameter(f"{path} is missing: name a folder with a fast tokenizer")
    words = Tokenizer.from_file(str(path))
    words.no_padding()
    words.no_truncation()
    if words.get_vocab_size() > vocabulary:
        raise typer.BadParameter(
            f"{path} has {words.get_vocab_size()} tokens, more than the model's {vocabulary} embeddings"
        )
    different = dict.fromkeys(ids for text in _texts(data) if (ids := _ids(words, text)) is not None)
    pairs = [list(ids) for ids in islice(different, count)]
    if len(pairs) < count:
        raise typer.BadParameter(f"{data} has {len(pairs)} different pairs, {count} are asked for")
    return pairs


def _texts(data: Path) -> Iterator[str]:
    for row in read_rows(data, _NAME):
        for passage in row["internal"]:
            for text in (passage["text"], *_strips(passage)):
                yield _TEMPLATE.format(question=row["question"], passage=text)


def _strips(passage: Any) -> list[str]:
    document = Document("", passage["text"], passage["title"] or "")
    return [strip.text for strip in decompose(document, RefinementSettings())]


def _ids(words: Tokenizer, text: str) -> tuple[int, ...] | None:
    ids = words.encode(text, add_special_tokens=False).ids[: LONGEST - 1]
    return (*ids, END_ID) if ids and min(ids) >= FIRST_WORD_ID else None
