"""A snapshot's rows out of dumps: every page with the names that redirects give it."""

from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from pathlib import Path

from deployments.backends.dumps.dump_reader import read_dump
from deployments.backends.dumps.page_extract import extract_pages
from deployments.backends.dumps.page_store import PageStore
from deployments.backends.indexes.index_rows import Columns, Rejection, RowSchema
from deployments.backends.indexes.source_file import Meter
from deployments.settings import PageText

_PAGES_PER_TRANSACTION = 1_000
"""What an interruption costs at most, beside reading the dump up to there once more."""


def store_pages(
    files: Sequence[Path],
    page_text: PageText,
    store: PageStore,
    meter: Meter,
    progress: Callable[[int, int], None],
) -> None:
    """Read dumps to their end into a store, which may hold a part of them already.

    `progress` is told the pages and the rejections so far. Raises SettingsError as `read_dump` does.
    """
    for number, file in enumerate(files):
        taken = store.taken(number)
        if taken is None:
            meter.done += file.stat().st_size
            continue
        extracted = extract_pages(islice(read_dump(file, meter), taken, None), page_text)
        while pages := list(islice(extracted, _PAGES_PER_TRANSACTION)):
            store.add(number, file.name, pages)
            progress(*store.counts())
        store.finish(number)


def stored_rows(store: PageStore, schema: RowSchema) -> Iterator[Columns | Rejection]:
    """What became of every page: first those that are no rows, then the rows in the dumps' order."""
    yield from store.rejections()
    for row in store.rows():
        yield row.columns(schema.text_template)
