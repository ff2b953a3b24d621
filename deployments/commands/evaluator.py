"""`crag evaluator`, `crag train`, `crag calibrate`: the evaluator from labels to thresholds."""

import json
import shlex
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

from crag_core.errors import SettingsError
from deployments.backends.evaluators.released_task import ReleasedTask
from deployments.commands.terminal import JsonFlag, err, meanwhile, out, sentences_for_errors
from training.options import PopqaLabels, T5Shape

if TYPE_CHECKING:
    from training.evaluator_test import Slice
    from training.fine_tuning import Recipe, Trained

evaluator = typer.Typer(no_args_is_help=True, help="Checkpoints of the retrieval evaluator.")
train = typer.Typer(no_args_is_help=True, help="Train models on labelled data.")

DataOption = Annotated[
    Path, typer.Option(help="Folder with the question sets and wiki_corpus.", exists=True)
]
SetsOption = Annotated[
    list[str] | None,
    typer.Option("--set", help="May be repeated; default popqa, hotpotqa, 2wiki, musique."),
]


class EvaluatorForm(StrEnum):
    """What is trained: a checkpoint's own kind, or a small head over a frozen encoder."""

    CHECKPOINT = "checkpoint"
    EMBEDDING_HEAD = "embedding_head"


class Goal(StrEnum):
    """What thresholds are chosen for."""

    ACCURACY = "accuracy"
    SEARCH_BUDGET = "search-budget"


@train.command("evaluator")
def train_evaluator(
    data: DataOption,
    out_folder: Annotated[Path, typer.Option("--out", help="Folder that the evaluator is written to.")],
    base: Annotated[
        str | None, typer.Option(help="Folder or hub name: a T5 of any size, or another encoder.")
    ] = None,
    scratch: Annotated[
        T5Shape | None,
        typer.Option(help="Instead of --base: a T5 of this shape, with random weights."),
    ] = None,
    form: Annotated[
        EvaluatorForm, typer.Option(help="embedding_head: a small head over --base, which stays frozen.")
    ] = EvaluatorForm.CHECKPOINT,
    sets: SetsOption = None,
    labels: Annotated[
        PopqaLabels,
        typer.Option(help="PopQA: the passage holds the answer, or is the gold page (paper)."),
    ] = PopqaLabels.ANSWER,
    learning_rate: Annotated[float, typer.Option(help="AdamW's, decaying to 0.", min=0)] = 1e-4,
    epochs: Annotated[float, typer.Option(help="Times over the pairs at most.", min=0.01)] = 8.0,
    batch_pairs: Annotated[int, typer.Option(help="Pairs of a step, on each worker.", min=1)] = 12,
    max_tokens: Annotated[int, typer.Option(help="Longer pairs lose their end.", min=16)] = 512,
    max_gradient_norm: Annotated[float, typer.Option(help="Gradients are clipped here.", min=0)] = 1.0,
    validation_share: Annotated[
        float, typer.Option(help="Share held out, no entity of which is trained on.", min=0.01, max=0.5)
    ] = 0.1,
    patience_epochs: Annotated[
        int, typer.Option(help="Epochs without a better AUC until it stops.", min=1)
    ] = 2,
    max_steps: Annotated[int | None, typer.Option(help="Steps at most.", min=1)] = None,
    max_pairs: Annotated[int | None, typer.Option(help="Pairs at most, whole questions.", min=1)] = None,
    seed: Annotated[int, typer.Option(help="Of the split, the order and new weights.")] = 0,
    workers: Annotated[
        int, typer.Option(help="Workers of Ray Train on the cluster; 0 trains in this process.", min=0)
    ] = 0,
    use_gpu: Annotated[bool, typer.Option("--gpu", help="One GPU for each worker.")] = False,
    as_json: JsonFlag = False,
) -> None:
    """Train a retrieval evaluator; defaults are the CRAG authors' recipe. Goes on where it stopped.

    Relevant passages are those of the gold page or the supporting facts, the others hard negatives; the
    best epoch by AUC on unseen entities is kept, with thresholds, in the form that `crag serve` loads.
    """
    command = f"crag {shlex.join(sys.argv[1:])}"
    with sentences_for_errors("interrupted: the same command goes on from its last checkpoint"):
        if (base is None) == (scratch is None):
            raise SettingsError("name either --base or --scratch")
        if form is EvaluatorForm.EMBEDDING_HEAD:
            if base is None:
                raise SettingsError("an embedding_head needs --base, the encoder under it")
            _train_head(data, base, out_folder, _sets(sets), as_json=as_json)
            return
        from training.fine_tuning import Recipe
        from training.labelled_pairs import describe, labelled_pairs, whole_questions

        with meanwhile("labelling pairs"):
            pairs = labelled_pairs(data, _sets(sets), labels)
            pairs = whole_questions(pairs, max_pairs, seed)
        if scratch is not None:
            base = str(_made_t5(out_folder, scratch, pairs, seed))
        err.print(describe(pairs))
        recipe = Recipe(
            base=str(base),
            learning_rate=learning_rate,
            epochs=epochs,
            batch_pairs=batch_pairs,
            max_tokens=max_tokens,
            max_gradient_norm=max_gradient_norm,
            validation_share=validation_share,
            patience_epochs=patience_epochs,
            max_steps=max_steps or -1,
            seed=seed,
        )
        trained = _fine_tuned(pairs, recipe, out_folder, describe(pairs), command, workers, use_gpu)
    losses = trained.losses
    report = {**asdict(trained), "thresholds": trained.thresholds.model_dump()}
    if as_json:
        out.print_json(data=report)
        return
    fell = f"loss {losses[0]:.3f} at first, {losses[-1]:.3f} at last; " if losses else ""
    out.print(
        f"{out_folder}: {trained.steps} steps over {trained.pairs:,} pairs; {fell}"
        f"AUC {trained.auc:.3f} on {trained.validation_pairs:,} pairs of unseen entities; "
        f"{trained.thresholds}"
    )


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
            pairs = labelled_pairs(data, _sets(sets), labels)
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


def _sets(sets: Sequence[str] | None) -> Sequence[str]:
    from training.labelled_pairs import ALL_SETS

    return tuple(sets) if sets else ALL_SETS


def _made_t5(out_folder: Path, shape: T5Shape, pairs: Sequence[Any], seed: int) -> Path:
    from training.from_scratch import make_t5

    folder = out_folder.with_name(f"{out_folder.name}.base")
    if not (folder / "config.json").exists():
        with meanwhile(f"making a {shape} T5 and its vocabulary"):
            texts = [text for pair in pairs for text in (pair.question, pair.passage.text)]
            make_t5(folder, shape, texts, seed)
    return folder


def _fine_tuned(
    pairs: Sequence[Any],
    recipe: "Recipe",
    folder: Path,
    trained_on: str,
    command: str,
    workers: int,
    use_gpu: bool,
) -> "Trained":
    if workers:
        from deployments.cluster_training import fine_tune_on_cluster

        return fine_tune_on_cluster(
            pairs, recipe, folder, trained_on, command, workers=workers, use_gpu=use_gpu
        )
    from training.fine_tuning import fine_tune

    return fine_tune(pairs, recipe, folder, trained_on=trained_on, command=command)


def _train_head(data: Path, base: str, folder: Path, sets: Sequence[str], *, as_json: bool) -> None:
    from training.embedding_head import train_embedding_head

    trained = train_embedding_head(data, base, folder, sets)
    if as_json:
        out.print_json(data=trained.as_json())
        return
    table = Table("questions", "pairs", "AUC, entities unseen", "AUC, set unseen", "AUC, bare cosine")
    for row in trained.quality:
        left_out = "" if row.auc_left_out is None else f"{row.auc_left_out:.3f}"
        table.add_row(row.name, str(row.pairs), f"{row.auc:.3f}", left_out, f"{row.auc_cosine:.3f}")
    out.print(table)
    gain = trained.over_cosine
    out.print(
        f"over bare cosine: {gain.mean:+.3f} ({gain.low:+.3f} to {gain.high:+.3f}), paired by entity"
    )
    out.print(str(trained.thresholds))


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
