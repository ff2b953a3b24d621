"""Builds an index from JSONL files: resumable, and never seen half-built."""

import hashlib
import json
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from datetime import timedelta
from itertools import islice
from pathlib import Path
from typing import TextIO

import lancedb
import pyarrow as pa
from lancedb.index import FTS, IvfFlat
from lancedb.table import Table
from pydantic import ValidationError

from crag_core.errors import SettingsError
from deployments.backends.indexes.index_rows import (
    PASSAGES,
    Columns,
    Rejection,
    RowSchema,
    read_lines,
    read_rows,
)
from deployments.backends.indexes.lance_index import (
    LANCE_FAILURES,
    MANIFEST,
    MAX_PARTITIONS,
    SEARCHED,
    VECTOR,
    Encoder,
    EncoderIdentity,
    IndexKind,
    Manifest,
    Source,
)

REJECTED = "rejected.jsonl"
"""File beside the manifest that names every line that became no row."""

_ROWS_PER_WRITE = 2_048
"""What an interruption costs at most; fewer would leave a large corpus in too many small files."""

_ROWS_PER_EMBEDDING = 256
_ROWS_PER_PARTITION = 500
_REPORTED_REJECTIONS = 20
_TABLE_NAME = re.compile(r"[a-z_]+-[0-9a-f]{16}")


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a build is: rows done (those of an interrupted build too), lines rejected, all lines."""

    rows: int
    rejected: int
    lines: int


@dataclass(frozen=True, slots=True)
class IndexReport:
    """What a build did: rows added in this run (0: nothing to do), and the first rejected lines."""

    manifest: Manifest
    rows_added: int = 0
    rejections: tuple[Rejection, ...] = ()


@dataclass(slots=True)
class _Sieve:
    """Passes rows on and writes every rejection down."""

    items: Iterable[Columns | Rejection]
    rejected_file: TextIO
    rows: int = 0
    rejected: int = 0
    first: list[Rejection] = field(default_factory=list)

    def __iter__(self) -> Iterator[Columns]:
        for item in self.items:
            if isinstance(item, Rejection):
                self.rejected += 1
                self.first += [item] if len(self.first) < _REPORTED_REJECTIONS else []
                self.rejected_file.write(json.dumps(asdict(item), ensure_ascii=False) + "\n")
            else:
                self.rows += 1
                yield item


def build_index(
    files: Sequence[Path],
    out: Path,
    encoder: Encoder | None,
    *,
    schema: RowSchema = PASSAGES,
    progress: Callable[[Progress], None] = lambda _: None,
) -> IndexReport:
    """Build the index `out` from files of JSON lines, `.gz` or not; lexical without an encoder.

    A build of the same files that was interrupted goes on where it stopped. A finished index stays
    in use until the new one is finished, and its table until the next build, for replicas that
    still read it. Raises SettingsError when a file cannot be read, when none of its lines is a row,
    and when `out` cannot be written or holds an index of another kind.
    """
    plan = _plan(files, schema, encoder)
    finished = _finished(out, plan.kind)
    with _writing(out):
        out.mkdir(parents=True, exist_ok=True)
        database = lancedb.connect(str(out))
        tables = {name for name in database.list_tables().tables if _TABLE_NAME.fullmatch(name)}
        if finished and finished.table == plan.table and plan.table in tables:
            return IndexReport(finished)
        for abandoned in tables - {plan.table, finished.table if finished else plan.table}:
            database.drop_table(abandoned)
        table = database.create_table(plan.table, schema=_columns(schema, encoder), exist_ok=True)
        present = table.count_rows()
    lines = sum(1 for file in files for _ in read_lines(file))
    with _replacing(out / REJECTED) as rejected_file:
        sieve = _Sieve(read_rows(files, schema), rejected_file)
        for added in _fill(out, table, islice(sieve, present, None), encoder):
            progress(Progress(present + added, sieve.rejected, lines))
        if sieve.rows == 0:
            raise SettingsError(_nothing_usable(files, sieve))
        with _writing(out):
            if table.count_rows() != sieve.rows:
                database.drop_table(plan.table)
                raise SettingsError(f"two builds have written {out} at once: build it again")
            _add_indexes(table, schema, encoder)
    manifest = plan.model_copy(update={"rows": sieve.rows, "rejected": sieve.rejected})
    with _replacing(out / MANIFEST) as manifest_file:
        manifest_file.write(manifest.model_dump_json(indent=2) + "\n")
    return IndexReport(manifest, sieve.rows - present, tuple(sieve.first))


def _plan(files: Sequence[Path], schema: RowSchema, encoder: Encoder | None) -> Manifest:
    """The manifest of the index to build, its counts still 0."""
    identity = EncoderIdentity.of(encoder) if encoder else EncoderIdentity()
    return Manifest(
        **dict(identity),
        kind=schema.kind,
        encoder=encoder.settings.model if encoder else None,
        text_template=schema.text_template,
        sources=tuple(Source(name=file.name, sha256=_sha256(file)) for file in files),
    )


def _finished(out: Path, kind: IndexKind) -> Manifest | None:
    """The manifest already there; None when there is none that can be read."""
    try:
        manifest = Manifest.model_validate_json((out / MANIFEST).read_bytes())
    except (OSError, ValidationError):
        return None
    if manifest.kind is not kind:
        raise SettingsError(f"{out} holds an index of kind {manifest.kind}: build the {kind} elsewhere")
    return manifest


def _columns(schema: RowSchema, encoder: Encoder | None) -> pa.Schema:
    if encoder is None:
        return schema.columns
    return schema.columns.append(pa.field(VECTOR, pa.list_(pa.float32(), encoder.dimension)))


def _fill(out: Path, table: Table, rows: Iterable[Columns], encoder: Encoder | None) -> Iterator[int]:
    """Embed rows and add them to the table; yields how many are embedded so far."""
    done = 0
    for written_together in _chunks(rows, _ROWS_PER_WRITE):
        for embedded_together in _chunks(written_together, _ROWS_PER_EMBEDDING):
            if encoder is not None:
                vectors = encoder.encode([row[SEARCHED] for row in embedded_together])
                for row, vector in zip(embedded_together, vectors, strict=True):
                    row[VECTOR] = vector
            done += len(embedded_together)
            yield done
        with _writing(out):
            table.add(pa.Table.from_pylist(written_together, schema=table.schema))


def _add_indexes(table: Table, schema: RowSchema, encoder: Encoder | None) -> None:
    """Compact the table, then index all of it.

    Compaction comes first because afterwards it would join small partitions of the vector index.
    """
    # Nobody reads an unfinished table, so its earlier versions can go at once.
    table.optimize(cleanup_older_than=timedelta(milliseconds=1), delete_unverified=True)
    for column in schema.full_text:
        # ICU finds the words of scripts without blanks too; stop words make up names (The Who).
        table.create_index(column, config=FTS(base_tokenizer="icu", remove_stop_words=False))
    if encoder is not None:
        partitions = min(max(table.count_rows() // _ROWS_PER_PARTITION, 1), MAX_PARTITIONS)
        # The dot product is what encoders without normalisation are trained for, and cosine with it.
        table.create_index(VECTOR, config=IvfFlat(distance_type="dot", num_partitions=partitions))


def _nothing_usable(files: Sequence[Path], sieve: _Sieve) -> str:
    names = ", ".join(file.name for file in files)
    if not sieve.first:
        return f"{names} hold no line: nothing to index"
    worst = sieve.first[0]
    return (
        f"none of the {sieve.rejected} lines of {names} is a row of an index: "
        f"{worst.file}, line {worst.line}: {worst.reason}"
    )


def _chunks(rows: Iterable[Columns], size: int) -> Iterator[list[Columns]]:
    remaining = iter(rows)
    while chunk := list(islice(remaining, size)):
        yield chunk


def _sha256(file: Path) -> str:
    try:
        with file.open("rb") as stream:
            return hashlib.file_digest(stream, "sha256").hexdigest()
    except OSError as error:
        raise SettingsError(f"{file} cannot be read: {error.strerror}") from error


@contextmanager
def _replacing(path: Path) -> Iterator[TextIO]:
    """A file written aside, which takes the place of `path` once it is complete."""
    aside = path.with_name(f"{path.name}.part")
    with aside.open("w", encoding="utf-8", newline="\n") as file:
        yield file
    aside.replace(path)


@contextmanager
def _writing(out: Path) -> Iterator[None]:
    try:
        yield
    except LANCE_FAILURES as error:
        raise SettingsError(f"the index {out} cannot be written: {error}") from error
