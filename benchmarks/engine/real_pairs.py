"""Real pairs: questions with the passages that came with them, and the strips of those."""

from collections.abc import Iterator
from itertools import islice
from pathlib import Path

import typer
from tokenizers import Tokenizer

from benchmarks.datasets import read_rows
from benchmarks.engine.pairs import END_ID, FIRST_WORD_ID, LONGEST
from crag_core.settings import RefinementSettings
from crag_core.strips import decompose
from crag_core.types import Document, Passage

_PASSAGES_OF = {"popqa": "internal", "hotpotqa": "paragraphs"}
"""The field that holds the passages of a question, by data set."""

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
    different = dict.fromkeys(
        ids
        for question, passages in real_questions(data)
        for passage in passages
        if (ids := _ids(words, _TEMPLATE.format(question=question, passage=passage.text))) is not None
    )
    pairs = [list(ids) for ids in islice(different, count)]
    if len(pairs) < count:
        raise typer.BadParameter(f"{data} has {len(pairs)} different pairs, {count} are asked for")
    return pairs


def real_questions(data: Path) -> Iterator[tuple[str, list[Passage]]]:
    """PopQA's questions, then HotpotQA's, each with its passages and the strips of those.

    Raises FileNotFoundError when `data` has no PopQA, ValueError for a line that is not of its form.
    """
    for name, field in _PASSAGES_OF.items():
        for number, row in enumerate(read_rows(data, name), start=1):
            try:
                question = row["question"]
                documents = [
                    Document("", passage["text"], passage["title"] or "")
                    for passage in row.get(field) or ()
                ]
            except (AttributeError, KeyError, TypeError) as error:
                raise ValueError(f"{data}/{name}:{number} is no question with passages") from error
            yield (
                question,
                [
                    Passage(text, document.title)
                    for document in documents
                    for text in (document.text, *_strips(document))
                ],
            )


def _strips(document: Document) -> list[str]:
    return [strip.text for strip in decompose(document, RefinementSettings())]


def _ids(words: Tokenizer, text: str) -> tuple[int, ...] | None:
    ids = words.encode(text, add_special_tokens=False).ids[: LONGEST - 1]
    return (*ids, END_ID) if ids and min(ids) >= FIRST_WORD_ID else None
