"""`python -m benchmarks golden-metrics`: exact match and F1 against those of published evaluations."""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from benchmarks.datasets import read_rows
from benchmarks.report import table
from crag_core.metrics import exact_match, f1_score

_TOLERANCE = 1e-9
_SHOWN = 10


@dataclass(frozen=True, slots=True)
class Disagreement:
    """A row that we judge otherwise; `ours` and `theirs` are exact match and F1."""

    row: int
    prediction: str | None
    answer: str
    ours: tuple[bool, float]
    theirs: tuple[bool, float]


@dataclass(frozen=True, slots=True)
class Agreement:
    """Rows by run, and those judged otherwise."""

    rows: Counter[str]
    disagreements: tuple[Disagreement, ...]


def golden_metrics(
    data: Annotated[Path, typer.Option(help="Folder with the golden rows.", exists=True)],
    name: Annotated[str, typer.Option(help="File name without .jsonl.")] = "metric_golden",
) -> None:
    """Judge golden rows (prediction, answer, exact_match, f1) again; exit 1 where one differs."""
    try:
        found = compared(read_rows(data, name))
    except (FileNotFoundError, ValueError) as error:
        typer.echo(f"error: {error}", err=True)
        raise typer.Exit(2) from None
    typer.echo(table(["run", "rows"], [[run, str(count)] for run, count in found.rows.items()]))
    for each in found.disagreements[:_SHOWN]:
        typer.echo(
            f"row {each.row}: {each.prediction!r} for {each.answer!r} is {each.theirs}, ours {each.ours}"
        )
    total = found.rows.total()
    typer.echo(f"{total - len(found.disagreements):,} of {total:,} rows agree in exact match and F1")
    if found.disagreements or not total:
        raise typer.Exit(1)


def compared(rows: Iterable[Mapping[str, Any]]) -> Agreement:
    """Our judgements beside the rows'; raises ValueError for a row without them."""
    counts: Counter[str] = Counter()
    differing = []
    for number, row in enumerate(rows, start=1):
        try:
            prediction, answer = row["prediction"], row["answer"]
            theirs = bool(row["exact_match"]), float(row["f1"])
        except (KeyError, TypeError) as error:
            raise ValueError(f"row {number} is no golden row: it lacks {error}") from error
        ours = exact_match(prediction, answer), f1_score(prediction, answer)
        counts[row.get("run", "-")] += 1
        if ours[0] != theirs[0] or abs(ours[1] - theirs[1]) > _TOLERANCE:
            differing.append(Disagreement(number, prediction, answer, ours, theirs))
    return Agreement(counts, tuple(differing))
