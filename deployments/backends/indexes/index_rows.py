"""The rows of an index: how a line of JSON becomes one, or is rejected with the reason."""

import codecs
import hashlib
import unicodedata
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import pyarrow as pa
from pydantic import AfterValidator, BaseModel, ConfigDict, ValidationError
from pydantic_core import PydanticCustomError

from deployments.backends.indexes.lance_index import SEARCHED, IndexKind
from deployments.backends.indexes.snapshot_search import NAMES
from deployments.backends.indexes.source_file import Meter, read_lines

Columns = dict[str, Any]
"""One row of the table, by column; without its vector."""


@dataclass(frozen=True, slots=True)
class Rejection:
    """A line that is no row, or begins a page that is none; lines are counted from 1."""

    file: str
    line: int
    reason: str


def _not_blank(text: str) -> str:
    if not text.strip():
        raise PydanticCustomError("blank", "Input should not be blank")
    return text


NotBlank = Annotated[str, AfterValidator(_not_blank)]


class Row(BaseModel):
    """One line of a source file; members nobody asked for are ignored."""

    model_config = ConfigDict(frozen=True, strict=True)

    title: str = ""
    text: NotBlank
    url: str | None = None

    def columns(self, template: str) -> Columns:
        """The row as the table holds it: its text untouched, its searched text folded."""
        searched = nfc(template.format(title=self.title, text=self.text)).strip()
        return {"title": self.title, "text": self.text, "url": self.url, SEARCHED: searched}


class PassageRow(Row):
    """A passage of the static corpus; without an `id`, title and text give it a stable one."""

    id: NotBlank | int | None = None

    def columns(self, template: str) -> Columns:
        digest = hashlib.sha256(f"{self.title}\0{self.text}".encode())
        key = digest.hexdigest()[:16] if self.id is None else str(self.id)
        return {"id": key, **super().columns(template)}


class SnapshotRow(Row):
    """A page of an encyclopedia at one revision, identified by its title."""

    title: NotBlank
    revision: str | int
    redirects: list[str] = []
    disambiguation: bool = False

    def columns(self, template: str) -> Columns:
        names = [" ".join(name.split()) for name in (self.title, *self.redirects)]
        return {
            "id": "_".join(self.title.split()),
            **super().columns(template),
            "revision": str(self.revision),
            "disambiguation": self.disambiguation,
            NAMES: nfc("\n".join(names)),
        }


class AtomicQARow(Row):
    """An atomic pair; `text` is the passage that it was read from."""

    question: NotBlank
    answer: NotBlank
    passage_id: NotBlank

    def columns(self, template: str) -> Columns:
        digest = hashlib.sha256(f"{self.question}\0{self.answer}".encode())
        searched = nfc(template.format(question=self.question, answer=self.answer))
        return {
            "id": f"{self.passage_id}#{digest.hexdigest()[:12]}",
            "title": self.title,
            "text": self.text,
            "url": self.url,
            "question": self.question,
            "answer": self.answer,
            "passage_id": self.passage_id,
            SEARCHED: searched,
        }


@dataclass(frozen=True, slots=True)
class RowSchema:
    """What an index of one kind is made of: its rows, its columns, and those searched as text."""

    kind: IndexKind
    row: type[Row]
    columns: pa.Schema
    full_text: tuple[str, ...] = (SEARCHED,)
    text_template: str = "{title}\n{text}"


_SHARED = [(name, pa.string()) for name in ("id", "title", "text", "url", SEARCHED)]

PASSAGES = RowSchema(IndexKind.PASSAGES, PassageRow, pa.schema(_SHARED))
SNAPSHOT = RowSchema(
    IndexKind.SNAPSHOT,
    SnapshotRow,
    pa.schema(
        [*_SHARED, ("revision", pa.string()), ("disambiguation", pa.bool_()), (NAMES, pa.string())]
    ),
    full_text=(NAMES, SEARCHED),
)

ATOMIC_QA = RowSchema(
    IndexKind.ATOMIC_QA,
    AtomicQARow,
    pa.schema([*_SHARED, *((name, pa.string()) for name in ("question", "answer", "passage_id"))]),
    text_template="{question}\n{answer}",
)


def read_rows(files: Iterable[Path], schema: RowSchema, meter: Meter) -> Iterator[Columns | Rejection]:
    """Every row of the files in order, and in its place every line that is none; blank lines skipped.

    The first of several rows with one id is kept.
    """
    seen: set[str] = set()
    for file in files:
        for number, line in enumerate(read_lines(file, meter), start=1):
            text = line.removeprefix(codecs.BOM_UTF8).strip()
            if not text:
                continue
            try:
                row = schema.row.model_validate_json(text)
            except ValidationError as error:
                yield Rejection(file.name, number, _reason(error))
                continue
            columns = row.columns(schema.text_template)
            if columns["id"] in seen:
                yield Rejection(file.name, number, f"an earlier row has the id {columns['id']!r}")
                continue
            seen.add(columns["id"])
            yield columns


def _reason(error: ValidationError) -> str:
    """The first thing wrong with a line, as one clause."""
    first = error.errors(include_url=False, include_context=False, include_input=False)[0]
    where = str(first["loc"][0]) if first["loc"] else "line"
    return f"{where}: {first['msg']}"


def nfc(text: str) -> str:
    """Text in the one form in which the index has every text."""
    return unicodedata.normalize("NFC", text)
