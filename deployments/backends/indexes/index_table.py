"""The LanceDB table of an index: its columns, its rows, and what makes them searchable."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from itertools import islice
from pathlib import Path

import pyarrow as pa
from lancedb.index import FTS, IvfFlat
from lancedb.table import Table

from crag_core.errors import SettingsError
from deployments.backends.indexes.index_rows import Columns, RowSchema
from deployments.backends.indexes.lance_index import (
    LANCE_FAILURES,
    MAX_PARTITIONS,
    SEARCHED,
    VECTOR,
    Encoder,
)

_ROWS_PER_WRITE = 2_048
"""What an interruption costs at most; fewer would leave a large corpus in too many small files."""

_CHARACTERS_PER_WRITE = 32_000_000
"""Long texts are written in fewer rows, so that the memory of a build does not grow with them."""

_ROWS_PER_EMBEDDING = 256
_ROWS_PER_PARTITION = 500


def table_columns(schema: RowSchema, encoder: Encoder | None) -> pa.Schema:
    """The table's columns, with a vector where there is an encoder."""
    if encoder is None:
        return schema.columns
    return schema.columns.append(pa.field(VECTOR, pa.list_(pa.float32(), encoder.dimension)))


def fill(out: Path, table: Table, rows: Iterable[Columns], encoder: Encoder | None) -> Iterator[int]:
    """Embed rows and add them to the table; yields how many are embedded so far."""
    done = 0
    for written_together in _written_together(rows):
        for embedded_together in _chunks(written_together, _ROWS_PER_EMBEDDING):
            if encoder is not None:
                vectors = encoder.encode([row[SEARCHED] for row in embedded_together])
                for row, vector in zip(embedded_together, vectors, strict=True):
                    row[VECTOR] = vector
            done += len(embedded_together)
            yield done
        with writing(out):
            table.add(pa.Table.from_pylist(written_together, schema=table.schema))


def add_indexes(table: Table, schema: RowSchema, encoder: Encoder | None) -> None:
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


def _chunks(rows: Iterable[Columns], size: int) -> Iterator[list[Columns]]:
    remaining = iter(rows)
    while chunk := list(islice(remaining, size)):
        yield chunk


def _written_together(rows: Iterable[Columns]) -> Iterator[list[Columns]]:
    chunk: list[Columns] = []
    characters = 0
    for row in rows:
        chunk.append(row)
        characters += len(row[SEARCHED])
        if len(chunk) == _ROWS_PER_WRITE or characters > _CHARACTERS_PER_WRITE:
            yield chunk
            chunk, characters = [], 0
    if chunk:
        yield chunk


@contextmanager
def writing(out: Path) -> Iterator[None]:
    """What LanceDB raises while it writes becomes a SettingsError that names the index."""
    try:
        yield
    except LANCE_FAILURES as error:
        raise SettingsError(f"the index {out} cannot be written: {error}") from error
