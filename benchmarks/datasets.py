"""Question sets: JSON lines with questions and gold answers, from a folder named by `--data`."""

import gzip
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True, slots=True)
class Item:
    """One question with its gold aliases; `id` aligns results with questions."""

    id: str
    question: str
    answers: tuple[str, ...]


def read_items(folder: Path, name: str, limit: int | None = None) -> list[Item]:
    """The first `limit` questions of `name.jsonl` or `name.jsonl.gz`.

    Raises FileNotFoundError when neither is there, ValueError with the line that is not a question.
    """
    path = _found(folder, name)
    items: list[Item] = []
    for number, row in enumerate(_rows(path), start=1):
        if limit is not None and len(items) == limit:
            break
        try:
            items.append(Item(str(row["id"]), row["question"], tuple(row["answers"])))
        except (KeyError, TypeError) as error:
            raise ValueError(f"{path}:{number} is no question with id and answers") from error
    return items


def read_rows(folder: Path, name: str) -> Iterator[Any]:
    """Every row of `name.jsonl` or `name.jsonl.gz`; raises as `read_items` does."""
    return _rows(_found(folder, name))


def _found(folder: Path, name: str) -> Path:
    for suffix in (".jsonl", ".jsonl.gz"):
        if (path := folder / f"{name}{suffix}").exists():
            return path
    raise FileNotFoundError(f"{folder} holds neither {name}.jsonl nor {name}.jsonl.gz")


def _rows(path: Path) -> Iterator[Any]:
    opened = gzip.open if path.suffix == ".gz" else open
    with opened(path, "rt", encoding="utf-8") as lines:
        # texts hold U+2028 and the like, so only a line feed ends a line
        for number, line in enumerate(lines, start=1):
            if not line.strip():
                continue
            try:
                yield json.loads(line)
            except ValueError as error:
                raise ValueError(f"{path}:{number} is not JSON") from error
