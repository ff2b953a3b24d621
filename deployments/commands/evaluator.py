"""`crag evaluator`, `crag calibrate`: checkpoints, how good they are, and their thresholds."""

import json
import shlex
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

from crag_core.errors import SettingsError
from deployments.backends.evaluators.released_task import ReleasedTask
from deployments.commands.labelled_sets import DataOption, SetsOption, chosen_sets
from deployments.commands.terminal import JsonFlag, err, meanwhile, out, sentences_for_errors
from training.options import PopqaLabels

if TYPE_CHECKING:
    from training.evaluator_test import Slice

evaluator = typer.Typer(no_args_is_help=True, help="Checkpoints of the retrieval evaluator.")


class Goal(StrEnum):
    """What thresholds are chosen for."""

    ACCURACY = "accuracy"
    SEARCH_BUDGET = "search-budget"


@evaluator.command("epsilon")
def evaluator_epsilon(
    folder: Annotated[Path, typer.Argument(help="Folder of a T5 evaluator in bfloat16.")],
    data: Annotated[Path, typer.Option(help="Folder with popqa.jsonl[.gz].")],
    pairs: Annotated[int, typer.Option(help="Pairs to measure on.", min=1)] = 1000,
    threads: Annotated[int, typer.Option(help="CPU threads.", min=1)] = 2,
    write: Annotated[bool, typer.Option(help="Write it into the folder's manifest.")] = False,
) -> None:
    """Measure how far bfloat16 moves a checkpoint's scores: `epsilon` of its manifest."""
    with sentences_for_errors(), meanwhile(f"scoring {pairs} pairs twice"):
        from benchmarks.engine.real_pairs import real_questions
        from deployments.backends.evaluators.evaluator_manifest import load_manifest, write_manifest
        from deployments.backends.t5.t5_epsilon import measured_epsilon
        from deployments.settings import EvaluatorSettings

        settings = EvaluatorSettings(model=str(folder), threads=threads)
        try:
            epsilon = measured_epsilon(settings, real_questions(data), pairs)
        except (FileNotFoundError, ValueError) as error:
            raise SettingsError(str(error)) from error
        if write:
            write_manifest(folder, load_manifest(folder).model_copy(update={"epsilon": epsilon}))
    out.print_json(data={"epsilon": epsilon, "pairs": pairs})


@evaluator.command("import")
def evaluator_import(
    source: Annotated[Path, typer.Argument(help="The CRAG authors' released folder.", exists=True)],
    out_folder: Annotated[Path, typer.Option("--out", help="Folder of the evaluator.")],
    task: Annotated[
        ReleasedTask, typer.Option(help="Whose published thresholds it gets.")
    ] = ReleasedTask.POPQA,
    as_json: JsonFlag = False,
) -> None:
    """Take the CRAG authors' released checkpoint as it is, and write what it needs to be served."""
    command = f"crag {shlex.join(sys.argv[1:])}"
    with sentences_for_errors(), meanwhile("copying and hashing"):
        from deployments.backends.evaluators.released_folder import import_released

        manifest = import_released(source, out_folder, task, command)
    if as_json:
        out.print_json(manifest.model_dump_json())
    else:
        out.print(f"{out_folder}: {manifest.kind}, {manifest.weights}, {manifest.thresholds}")


@evaluator.command("test")
def evaluator_test(
    folder: Annotated[str, typer.Argument(help="Folder of an evaluator.")],
    data: DataOption,
    encoder: Annotated[str | None, typer.Option(help="Encoder of an embedding_head.")] = None,
    sets: SetsOption = None,
    labels: Annotated[PopqaLabels, typer.Option(help="As in training.")] = PopqaLabels.ANSWER,
    max_pairs: Annotated[int | None, typer.Option(help="Pairs at most, whole questions.", min=1)] = None,
    seed: Annotated[int, typer.Option(help="Of the questions chosen.")] = 0,
    device: Annotated[str, typer.Option(help="Torch device.")] = "cpu",
    threads: Annotated[int, typer.Option(help="CPU threads.", min=1)] = 2,
    as_json: JsonFlag = False,
) -> None:
    """AUC, accuracy and confusion of an evaluator on labelled pairs, by set and by kind of question."""
    with sentences_for_errors():
        from deployments.backends.evaluators.scorer import load_scorer
        from deployments.settings import EvaluatorSettings
        from training.evaluator_test import scored_by, slices
        from training.labelled_pairs import labelled_pairs, whole_questions

        with meanwhile("loading"):
            settings = EvaluatorSettings(model=folder, encoder=encoder, device=device, threads=threads)
            scorer = load_scorer(settings)
            pairs = labelled_pairs(data, chosen_sets(sets), labels)
            pairs = whole_questions(pairs, max_pairs, seed)
        with _scoring(len(pairs)) as show:
            scores = scored_by(scorer, pairs, show)
        found = slices(pairs, scores, scorer.manifest.thresholds.action())
    if as_json:
        out.print_json(data=[asdict(each) for each in found])
    else:
        _print_slices(found)


def calibrate(
    folder: Annotated[Path, typer.Argument(help="Folder of the evaluator.", exists=True)],
    run: Annotated[
        Path,
        typer.Option(
            help="A `crag quality` run of crag_correct, crag_ambiguous and crag_incorrect.", exists=True
        ),
    ],
    data: Annotated[Path, typer.Option(help="The question sets of that run.", exists=True)],
    name: Annotated[list[str] | None, typer.Option(help="As in that run; default popqa.")] = None,
    goal: Annotated[
        Goal, typer.Option(help="The most right answers, or those within a budget of searches.")
    ] = Goal.ACCURACY,
    budget: Annotated[
        float | None, typer.Option(help="Share of questions that may search.", min=0, max=1)
    ] = None,
    labels: Annotated[
        Path | None, typer.Option(help="Folder of labelled sets, to choose `strip` by.", exists=True)
    ] = None,
    encoder: Annotated[
        str | None, typer.Option(help="Encoder of an embedding_head, for --labels.")
    ] = None,
    write: Annotated[bool, typer.Option(help="Write the thresholds into the manifest.")] = False,
    plot: Annotated[Path | None, typer.Option("--out", help="Folder for curve and report.")] = None,
    as_json: JsonFlag = False,
) -> None:
    """Choose an evaluator's thresholds by answers given under each action, and draw the trade-off.

    What is reported holds for questions that the thresholds were not chosen on (five folds).
    """
    with sentences_for_errors():
        if (goal is Goal.SEARCH_BUDGET) != (budget is not None):
            raise SettingsError("--goal search-budget and --budget belong together")
        from deployments.calibrating import calibrated

        report = calibrated(
            folder, run, data, name or ["popqa"], 1.0 if budget is None else budget, labels, encoder,
            plot, write=write,
        )  # fmt: skip
    if as_json:
        out.print_json(data=report)
    else:
        out.print(report["sentence"])
        out.print(json.dumps(report["thresholds"]))


@contextmanager
def _scoring(total: int) -> Iterator[Callable[[int], None]]:
    columns = (TextColumn("scoring pairs"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=err) as bar:
        task = bar.add_task("scoring", total=total)
        yield lambda done: bar.update(task, completed=done)


def _print_slices(found: "Sequence[Slice]") -> None:
    table = Table(
        "pairs of", "pairs", "relevant", "AUC", "accuracy", "relevant: C / A / I", "other: C / A / I"
    )
    for each in found:
        counts = [" / ".join(str(n) for n in row.values()) for row in each.confusion.values()]
        auc = "-" if each.auc is None else f"{each.auc:.3f}"
        table.add_row(
            each.name, f"{each.pairs:,}", f"{each.relevant:,}", auc, f"{each.accuracy:.3f}", *counts
        )
    out.print(table)
