"""Question sets of a user's own, with the documents they bring, as requests can carry them."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.datasets import read_rows

_MAX_DOCUMENTS, _MAX_CHARACTERS, _MAX_QUESTION_CHARACTERS = 100, 100_000, 4_000


@dataclass(frozen=True, slots=True)
class Asked:
    """One question as the API's fields have it."""

    question: str
    fields: dict[str, Any]


def read_asked(folder: Path, name: str, *, with_documents: bool) -> list[Asked]:
    """The questions of a set: rows with `question` or `claim`, and `choices` where they have them.

    Documents are a row's `documents`, `internal` or `paragraphs`. Raises FileNotFoundError,
    and ValueError for a row without a question, or a set without rows.
    """
    asked: list[Asked] = []
    for number, row in enumerate(read_rows(folder, name), start=1):
        text = (row.get("question") or row.get("claim")) if isinstance(row, dict) else None
        if not isinstance(text, str) or not text.strip():
            raise ValueError(f"row {number} of {name} has no question")
        fields: dict[str, Any] = {}
        if row.get("choices"):
            fields |= {"task": "choice", "choices": row["choices"]}
        elif row.get("claim"):
            fields["task"] = "claim"
        if with_documents:
            fields["documents"] = _documents(row)
        asked.append(Asked(text.strip()[:_MAX_QUESTION_CHARACTERS], fields))
    if not asked:
        raise ValueError(f"{name} holds no questions")
    return asked


def _documents(row: dict[str, Any]) -> list[dict[str, str]]:
    given = row.get("documents") or row.get("internal") or row.get("paragraphs") or []
    documents = [entry if isinstance(entry, dict) else {"text": str(entry)} for entry in given]
    return [
        {
            "text": str(entry.get("text", ""))[:_MAX_CHARACTERS],
            "title": str(entry.get("title") or "")[:1000],
        }
        for entry in documents[:_MAX_DOCUMENTS]
    ]
