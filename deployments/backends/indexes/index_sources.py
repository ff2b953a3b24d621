"""Where the rows of an index come from: JSON lines, or dumps by way of a store of their pages."""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from crag_core.errors import SettingsError
from deployments.backends.dumps.dump_reader import is_dump
from deployments.backends.dumps.dump_rows import store_pages, stored_rows
from deployments.backends.dumps.page_store import PageStore
from deployments.backends.indexes.index_rows import Columns, Rejection, RowSchema, read_rows
from deployments.backends.indexes.lance_index import IndexKind
from deployments.backends.indexes.source_file import Meter
from deployments.settings import PageText

STORE_SUFFIX = ".pages"
"""Ends the name of the file that keeps what was read of dumps until the index is finished."""

_STORE_NAME = re.compile(rf"[a-z_]+-[0-9a-f]{{16}}{re.escape(STORE_SUFFIX)}(-wal|-shm)?")


class Step(StrEnum):
    """What a build is at; a build from JSON lines reads and writes at once."""

    READING = "reading"
    WRITING = "writing"
    INDEXING = "indexing"


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a build is: rows and rejections so far, those of an interrupted build too.

    `done` of `total` are bytes of the files while reading, rows while writing, 0 while indexing.
    """

    step: Step
    rows: int
    rejected: int
    done: int = 0
    total: int = 0


Listener = Callable[[Progress], None]


def are_dumps(files: Sequence[Path], schema: RowSchema) -> bool:
    """Whether files are dumps; raises SettingsError where only some are, or a snapshot is not built."""
    dumps = [file for file in files if is_dump(file)]
    if dumps and schema.kind is not IndexKind.SNAPSHOT:
        raise SettingsError(
            f"{dumps[0]} is a MediaWiki dump, of which only a snapshot can be built: "
            "use `crag snapshot build`, or give JSON lines"
        )
    if dumps and len(dumps) < len(files):
        raise SettingsError("a snapshot is built from dumps or from JSON lines, not from both at once")
    return bool(dumps)


@contextmanager
def read_sources(
    files: Sequence[Path],
    schema: RowSchema,
    page_text: PageText | None,
    store_file: Path,
    progress: Listener,
) -> Iterator[tuple[Iterable[Columns | Rejection], Callable[[int, int], None]]]:
    """The rows of the files, and what is to be told the rows and rejections that are written."""
    meter = Meter(total=sum(file.stat().st_size for file in files))

    def read(rows: int, rejected: int) -> None:
        progress(Progress(Step.READING, rows, rejected, meter.done, meter.total))

    if page_text is None:
        yield read_rows(files, schema, meter), read
        return
    with PageStore.opened(store_file) as store:
        store_pages(files, page_text, store, meter, read)
        total, rejected = store.counts()
        yield (
            stored_rows(store, schema),
            lambda rows, _: progress(Progress(Step.WRITING, rows, rejected, rows, total)),
        )


def delete_stores(out: Path, but: Path | None = None) -> None:
    """Delete what builds from dumps had read so far, except of one build."""
    for path in out.iterdir():
        kept = but is not None and path.name.startswith(but.name)
        if _STORE_NAME.fullmatch(path.name) and not kept:
            path.unlink()
