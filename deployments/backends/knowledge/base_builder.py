"""Builds a knowledge base from a corpus: read what is not read yet, judge, write, for an index."""

import asyncio
import json
import time
from collections.abc import AsyncIterable, AsyncIterator, Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from pydantic import ValidationError

from crag_core.errors import SettingsError
from deployments.backends.indexes.index_rows import PassageRow
from deployments.backends.indexes.source_file import Meter, read_lines
from deployments.backends.knowledge.ledger import LEDGER, Ledger, PassageRead
from deployments.backends.knowledge.pair_file import (
    PAIRS,
    PairCounts,
    PairWriter,
    PublishedPassage,
    judged_pairs,
    passage_hash,
)

CONCURRENCY = 16
"""Passages in the hands of one engine, which batches them."""


class Reading(Protocol):
    """Reads passages, in whatever order they are finished."""

    def __call__(self, passages: Sequence[PublishedPassage], /) -> AsyncIterable[PassageRead]: ...


@dataclass(slots=True)
class BuildProgress:
    """How far a build is; tokens and seconds are those of this run."""

    passages: int
    done: int = 0
    resumed: int = 0
    failed: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    started: float = field(default_factory=time.monotonic)

    @property
    def passages_per_second(self) -> float:
        """Passages read in this run, a second."""
        return (self.done - self.resumed) / max(1e-9, time.monotonic() - self.started)


@dataclass(frozen=True, slots=True)
class BuildReport:
    """What a build did: its progress at the end, and what became of the pairs."""

    progress: BuildProgress
    counts: PairCounts
    failures: tuple[tuple[str, str], ...]


class OneReader(Protocol):
    """Reads one passage."""

    async def read(self, passage: PublishedPassage) -> PassageRead: ...


def read_locally(reader: OneReader, concurrency: int = CONCURRENCY) -> Reading:
    """Reading in this process, some passages at a time."""

    async def reading(passages: Sequence[PublishedPassage], /) -> AsyncIterator[PassageRead]:
        waiting = iter(passages)
        running: set[asyncio.Task[PassageRead]] = set()
        try:
            while True:
                while len(running) < concurrency and (passage := next(waiting, None)) is not None:
                    running.add(asyncio.ensure_future(reader.read(passage)))
                if not running:
                    return
                done, running = await asyncio.wait(running, return_when=asyncio.FIRST_COMPLETED)
                for task in done:
                    yield task.result()
        finally:
            for task in running:
                task.cancel()

    return reading


async def build_pairs(
    files: Sequence[Path],
    out: Path,
    reading: Reading,
    made_by: str,
    *,
    progress: Callable[[BuildProgress], None] = lambda _: None,
) -> BuildReport:
    """Read the passages of files of JSON lines and write their pairs into `out`.

    Passages in the ledger are not read again, also after an interruption. Raises SettingsError when
    a file cannot be read, `out` not be written, or not one pair was kept.
    """
    passages = {passage_hash(each.title, each.text): each for each in _passages(files)}
    with Ledger.opened(out / LEDGER, made_by) as ledger:
        unread = [passage for key, passage in passages.items() if ledger.find(key) is None]
        state = BuildProgress(len(passages), len(passages) - len(unread), len(passages) - len(unread))
        progress(state)
        async for read in reading(unread):
            ledger.record(read)
            state.done += 1
            state.failed += read.failure is not None
            state.prompt_tokens += read.prompt_tokens
            state.completion_tokens += read.completion_tokens
            progress(state)
        found = ((passage, ledger.find(key)) for key, passage in passages.items())
        counts, failures = _write(found, out)
    return BuildReport(state, counts, failures)


def _write(
    found: Iterable[tuple[PublishedPassage, PassageRead | None]], out: Path
) -> tuple[PairCounts, tuple[tuple[str, str], ...]]:
    """The pairs of all passages, in the order of the corpus, in one file that appears whole."""
    writer, failures = PairWriter(), []
    aside = out / f"{PAIRS}.part"
    with aside.open("w", encoding="utf-8", newline="\n") as sink:
        for passage, read in found:
            if read is None:
                continue
            if read.failure is not None:
                failures.append((passage.passage_id, read.failure))
            for row in writer.rows(passage, judged_pairs(passage, read.pairs, verbatim=True)):
                sink.write(json.dumps(row, ensure_ascii=False) + "\n")
    if not writer.counts.kept:
        raise SettingsError(
            f"not one pair of {writer.counts.passages} passages was kept: "
            "name a generator that can follow the Reader's prompt"
        )
    aside.replace(out / PAIRS)
    return writer.counts, tuple(failures)


def _passages(files: Sequence[Path]) -> Iterator[PublishedPassage]:
    for file in files:
        for number, line in enumerate(read_lines(file, Meter()), start=1):
            if not line.strip():
                continue
            try:
                row = PassageRow.model_validate_json(line)
            except ValidationError as error:
                raise SettingsError(
                    f"{file}, line {number} is no passage with `title` and `text`"
                ) from error
            key = None if row.id is None else str(row.id)
            yield PublishedPassage(title=row.title, text=row.text, corpus_id=key, url=row.url)
