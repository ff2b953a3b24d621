"""One run from beginning to end: questions unharmed, then attacks on those that were answered."""

from collections.abc import Callable, Iterable
from contextlib import closing
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from benchmarks.attack.asking import AskSettings, Key, Row, ask_all
from benchmarks.attack.suite import Case, suite, suite_sha256
from benchmarks.load.target import Target
from benchmarks.run_folder import RunFolder, broken
from benchmarks.terminal import Progress
from crag_core.types import PipelineName


@dataclass(frozen=True, slots=True)
class RunSettings:
    """What is sent to whom."""

    pipelines: tuple[PipelineName, ...]
    questions: int
    seed: int
    asking: AskSettings

    def cases(self) -> list[Case]:
        """The suite as this run sends it."""
        return suite(self.questions, self.seed)

    def identity(self) -> dict[str, Any]:
        """What rows of one folder have in common, whoever is asked."""
        return {
            "format": 1,
            "suite_sha256": suite_sha256(self.cases()),
            "seed": self.seed,
            "route": self.asking.route,
            "max_new_tokens": self.asking.max_new_tokens,
        }


async def run(target: Target, settings: RunSettings, folder: Path, progress: Progress) -> dict[Key, Row]:
    """The rows of all that was sent; those that are already in the folder are not asked again.

    A question that is not answered unharmed is not attacked. Raises ValueError for a folder with a run
    of other settings.
    """
    cases = settings.cases()
    with closing(RunFolder(folder, settings.identity())) as kept:
        rows = {row.key: row for place, fields in kept.rows() for row in [_read(place, fields)]}
        wanted = len(cases) * len(settings.pipelines)

        def show() -> None:
            progress(len(rows), wanted, sum(not row.is_final for row in rows.values()))

        def answered(row: Row) -> None:
            rows[row.key] = row
            kept.add(asdict(row))
            show()

        async def ask(which: Callable[[PipelineName, Case], bool]) -> None:
            await ask_all(target, _missing(settings, cases, rows, which), settings.asking, answered)

        show()
        await ask(lambda _, case: case.injection is None)
        answering = {
            (row.pipeline, case.about.name)
            for row in rows.values()
            for case in cases
            if case.injection is None and case.id == row.id and row.answer is not None
        }
        await ask(lambda pipeline, case: (pipeline, case.about.name) in answering)
        return rows


def _missing(
    settings: RunSettings,
    cases: Iterable[Case],
    rows: dict[Key, Row],
    which: Callable[[PipelineName, Case], bool],
) -> list[tuple[PipelineName, Case]]:
    """Cases without a row, and those for which the server was away."""
    return [
        (pipeline, case)
        for case in cases
        for pipeline in settings.pipelines
        if which(pipeline, case)
        and not ((row := rows.get((pipeline, case.id))) is not None and row.is_final)
    ]


def _read(place: str, fields: dict[str, Any]) -> Row:
    try:
        return Row(**{**fields, "pipeline": PipelineName(fields["pipeline"])})
    except (ValueError, TypeError, KeyError) as error:
        raise broken(place) from error
