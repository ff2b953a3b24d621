"""Builds an index from JSON lines or dumps: resumable, and never seen half-built."""

import hashlib
import json
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from itertools import islice
from pathlib import Path
from typing import TextIO

import lancedb
from pydantic import ValidationError

from crag_core.errors import SettingsError
from deployments.backends.indexes.index_rows import PASSAGES, Columns, Rejection, RowSchema
from deployments.backends.indexes.index_sources import (
    STORE_SUFFIX,
    Listener,
    Progress,
    Step,
    are_dumps,
    delete_stores,
    read_sources,
)
from deployments.backends.indexes.index_table import add_indexes, fill, table_columns, writing
from deployments.backends.indexes.lance_index import (
    MANIFEST,
    Encoder,
    EncoderIdentity,
    IndexKind,
    Manifest,
    Source,
)
from deployments.settings import PageText

REJECTED = "rejected.jsonl"
"""File beside the manifest that names every line, or page of a dump, that became no row."""

_REPORTED_REJECTIONS = 20
_TABLE_NAME = re.compile(r"[a-z_]+-[0-9a-f]{16}")


@dataclass(frozen=True, slots=True)
class IndexReport:
    """What a build did: rows added in this run (0: nothing to do), the first rejections, and
    the manifest of the index that it replaced.
    """

    manifest: Manifest
    rows_added: int = 0
    rejections: tuple[Rejection, ...] = ()
    replaced: Manifest | None = None


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
    page_text: PageText = PageText.LEAD,
    replace: bool = False,
    progress: Listener = lambda _: None,
) -> IndexReport:
    """Build the index `out` from files of JSON lines, or a snapshot from MediaWiki dumps.

    Files may be zipped (`.gz`, `.bz2`); without an encoder the index is lexical; `page_text` is for
    dumps. A build of the same files that was interrupted goes on where it stopped. A finished index
    is only replaced when `replace` says so, stays in use until the new one is finished, and its
    table until the next build, for replicas that still read it. Raises SettingsError when a file
    cannot be read, when nothing in it is a row, when `out` holds another finished index that is not
    to be replaced or is of another kind, and when `out` cannot be written.
    """
    from_dumps = are_dumps(files, schema)
    plan = _plan(files, schema, encoder, page_text if from_dumps else None)
    finished = _finished(out, plan.kind, replace)
    with writing(out):
        out.mkdir(parents=True, exist_ok=True)
        database = lancedb.connect(str(out))
        tables = {name for name in database.list_tables().tables if _TABLE_NAME.fullmatch(name)}
        if finished and finished.table == plan.table and plan.table in tables:
            return IndexReport(finished)
        if finished and finished.table != plan.table and not replace:
            raise SettingsError(
                f"{out} holds a finished index of {_described(finished)}: "
                "name another folder, or replace it with --replace"
            )
        for abandoned in tables - {plan.table, finished.table if finished else plan.table}:
            database.drop_table(abandoned)
        store_file = out / f"{plan.table}{STORE_SUFFIX}"
        delete_stores(out, but=store_file)
        table = database.create_table(plan.table, schema=table_columns(schema, encoder), exist_ok=True)
        present = table.count_rows()
    with (
        _replacing(out / REJECTED) as rejected_file,
        read_sources(files, schema, plan.page_text, store_file, progress) as (rows, tell),
    ):
        sieve = _Sieve(rows, rejected_file)
        for added in fill(out, table, islice(sieve, present, None), encoder):
            tell(present + added, sieve.rejected)
        if sieve.rows == 0:
            raise SettingsError(_nothing_usable(files, sieve))
        with writing(out):
            if table.count_rows() != sieve.rows:
                database.drop_table(plan.table)
                raise SettingsError(f"two builds have written {out} at once: build it again")
            progress(Progress(Step.INDEXING, sieve.rows, sieve.rejected))
            add_indexes(table, schema, encoder)
    manifest = plan.model_copy(update={"rows": sieve.rows, "rejected": sieve.rejected})
    with _replacing(out / MANIFEST) as manifest_file:
        manifest_file.write(manifest.model_dump_json(indent=2) + "\n")
    delete_stores(out)
    replaced = finished if finished and finished.table != plan.table else None
    return IndexReport(manifest, sieve.rows - present, tuple(sieve.first), replaced)


def _plan(
    files: Sequence[Path], schema: RowSchema, encoder: Encoder | None, page_text: PageText | None
) -> Manifest:
    """The manifest of the index to build, its counts still 0."""
    identity = EncoderIdentity.of(encoder) if encoder else EncoderIdentity()
    return Manifest(
        **dict(identity),
        kind=schema.kind,
        encoder=encoder.settings.model if encoder else None,
        text_template=schema.text_template,
        page_text=page_text,
        sources=tuple(Source(name=file.name, sha256=_sha256(file)) for file in files),
    )


def _finished(out: Path, kind: IndexKind, replace: bool) -> Manifest | None:
    """The manifest already there; None when there is none, or one of no use that may be replaced."""
    try:
        manifest = Manifest.model_validate_json((out / MANIFEST).read_bytes())
    except OSError:
        return None
    except ValidationError as error:
        if replace:
            return None
        raise SettingsError(
            f"{out / MANIFEST} is there and says of no index that this version knows: "
            "name another folder, or replace it with --replace"
        ) from error
    if manifest.kind is not kind:
        raise SettingsError(f"{out} holds an index of kind {manifest.kind}: build the {kind} elsewhere")
    return manifest


def _described(manifest: Manifest) -> str:
    """What an index is, in a few words."""
    first, *others = (source.name for source in manifest.sources)
    files = f"{first} and {len(others)} other files" if others else first
    return f"kind {manifest.kind} with {manifest.rows:,} rows of {files}"


def _nothing_usable(files: Sequence[Path], sieve: _Sieve) -> str:
    names = ", ".join(file.name for file in files)
    if not sieve.first:
        return f"{names} hold no line or page: nothing to index"
    worst = sieve.first[0]
    return (
        f"none of the {sieve.rejected} lines or pages of {names} is a row of an index: "
        f"{worst.file}, line {worst.line}: {worst.reason}"
    )


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
