"""Question sets: rows with questions and gold answers, from a folder named by `--data`."""

import csv
import gzip
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TextIO

_FORMS = (".jsonl", ".jsonl.gz", ".json", ".json.gz", ".tsv", ".tsv.gz")


@dataclass(frozen=True, slots=True)
class Item:
    """One question with its gold aliases; `id` aligns results with questions.

    `pages` are the titles of the pages that it is about, where the set says so.
    """

    id: str
    question: str
    answers: tuple[str, ...]
    pages: tuple[str, ...] = ()


def read_items(folder: Path, name: str, limit: int | None = None) -> list[Item]:
    """The first `limit` questions of `name.jsonl` or `name.jsonl.gz`.

    Raises FileNotFoundError when neither is there, ValueError with the line that is not a question.
    """
    items: list[Item] = []
    for number, row in enumerate(read_rows(folder, name), start=1):
        if limit is not None and len(items) == limit:
            break
        try:
            about = row.get("s_wiki_title")
            pages = (about,) if about else tuple(row.get("supporting_titles") or ())
            items.append(Item(str(row["id"]), row["question"], tuple(row["answers"]), pages))
        except (AttributeError, KeyError, TypeError) as error:
            raise ValueError(f"{folder}/{name}:{number} is no question with id and answers") from error
    return items


def read_rows(folder: Path, name: str) -> Iterator[Any]:
    """The rows of `name.jsonl` or `name.jsonl.gz`; raises as `find_file` and `rows_of` do."""
    return rows_of(find_file(folder, [name], _FORMS[:2]))


def find_file(folder: Path, names: Sequence[str], forms: Sequence[str] = _FORMS) -> Path:
    """The first file of these names, in one of these forms; raises FileNotFoundError without one."""
    for name in names:
        for form in forms:
            if (path := folder / f"{name}{form}").is_file():
                return path
    tried = " nor ".join(f"{name}{form}" for name in names for form in forms[:2])
    raise FileNotFoundError(f"{folder} holds neither {tried}")


def rows_of(path: Path) -> Iterator[Any]:
    """The rows of a file: JSON lines, a JSON list (or its `data`), or tab-separated with a header.

    Each may be gzipped. Raises ValueError with the line where a file is cut or is not what it says.
    """
    opened = gzip.open if path.suffix == ".gz" else open
    form = path.suffixes[-2] if path.suffix == ".gz" else path.suffix
    readers = {".json": _document, ".tsv": _table}
    try:
        with opened(path, "rt", encoding="utf-8", newline="\n") as file:
            yield from readers.get(form, _lines)(path, file)
    except (EOFError, gzip.BadGzipFile, UnicodeDecodeError) as error:
        raise ValueError(f"{path} is cut or broken ({error}): fetch it again") from error


def _lines(path: Path, file: TextIO) -> Iterator[Any]:
    # texts hold U+2028 and the like, so only a line feed ends a line
    for number, line in enumerate(file, start=1):
        if not line.strip():
            continue
        try:
            yield json.loads(line)
        except ValueError as error:
            cut = "" if line.endswith("\n") else ", and the file ends there: it was cut"
            raise ValueError(f"{path}:{number} is not JSON{cut}") from error


def _document(path: Path, file: TextIO) -> Iterator[Any]:
    try:
        content = json.load(file)
    except ValueError as error:
        raise ValueError(f"{path} is not JSON, or was cut: {error}") from error
    rows = content.get("data") if isinstance(content, dict) else content
    if not isinstance(rows, list):
        raise ValueError(f"{path} holds no list of questions")
    yield from rows


def _table(path: Path, file: TextIO) -> Iterator[Any]:
    rows = csv.DictReader(file, delimiter="\t")
    for row in rows:
        if None in row or None in row.values():
            raise ValueError(f"{path}:{rows.line_num} has not as many fields as the header")
        yield row
