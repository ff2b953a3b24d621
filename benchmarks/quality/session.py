"""One run from beginning to end: read the sets, ask what has no answer yet, judge what is there."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.quality.analysis import SetResults, results_of
from benchmarks.quality.asking import AskSettings, Server, ask_all, over_http
from benchmarks.quality.ledger import Key, Ledger, Row
from benchmarks.quality.methods import Method
from benchmarks.quality.question_sets import read_set
from benchmarks.quality.questions import QuestionSet
from benchmarks.quality.scoring import searched_sources
from benchmarks.quality.search_side import SearchSide, refuse_other_sources
from benchmarks.terminal import Progress


@dataclass(frozen=True, slots=True)
class RunSettings:
    """What is asked of whom: a server at `url`, or the application of `config` in this process."""

    data: Path
    names: tuple[str, ...]
    methods: tuple[Method, ...]
    url: str
    headers: tuple[tuple[str, str], ...]
    config: Path | None
    given: bool
    search: SearchSide | None
    limit: int | None
    max_new_tokens: int | None
    concurrency: int
    timeout_s: float
    patience_s: float

    def identity(self) -> dict[str, Any]:
        """What a folder's rows have in common; which questions and methods, may grow."""
        return {
            "format": 1,
            "documents": "given" if self.given else "retrieved",
            "search": self.search and str(self.search),
            "max_new_tokens": self.max_new_tokens,
            "config": self.config and str(self.config),
        }

    @property
    def asking(self) -> AskSettings:
        """How each question is asked."""
        options = {} if self.max_new_tokens is None else {"max_new_tokens": self.max_new_tokens}
        return AskSettings(options, self.given, self.concurrency, self.timeout_s, self.patience_s)


async def run(settings: RunSettings, folder: Path, progress: Progress) -> list[SetResults]:
    """The judged results; rows already in the folder are not asked again.

    Raises ValueError or FileNotFoundError for bad files, SettingsError for a bad config; what was
    answered until then stays in the folder.
    """
    sets = [read_set(settings.data, name).first(settings.limit) for name in settings.names]
    _refuse_unserved(settings)
    wanted: list[Key] = [
        (each.name, method, question.id)
        for each in sets
        for question in each.questions
        for method in settings.methods
    ]
    with closing(Ledger(folder, settings.identity())) as ledger:
        missing = ledger.missing(wanted)
        done, failures = len(wanted) - len(missing), 0
        progress(done, len(wanted), failures)

        def answered(row: Row) -> None:
            nonlocal done, failures
            done, failures = done + 1, failures + (row.error is not None)
            progress(done, len(wanted), failures)
            if row.reply is not None:
                refuse_other_sources(settings.search, searched_sources(row.reply))

        if missing:
            async with _server(settings, sets) as server:
                await ask_all(server, sets, missing, ledger, settings.asking, answered)
        return results_of(sets, ledger.rows, settings.methods)


def _refuse_unserved(settings: RunSettings) -> None:
    unserved = [method for method in settings.methods if not method.is_served]
    if unserved and settings.config is None:
        raise ValueError(
            f"{', '.join(unserved)} is not part of the HTTP API: run it in process, with --config"
        )


@asynccontextmanager
async def _server(settings: RunSettings, sets: Sequence[QuestionSet]) -> AsyncIterator[Server]:
    if settings.config is None:
        async with over_http(settings.url.rstrip("/"), settings.headers, settings.timeout_s) as server:
            yield server
        return
    from benchmarks.quality.in_process import in_process

    async with in_process(settings.config, settings.search, sets) as server:
        yield server
