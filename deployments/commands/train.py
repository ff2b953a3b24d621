"""`crag train`: models out of labelled data."""

import shlex
import sys
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.table import Table

from crag_core.errors import SettingsError
from deployments.commands.labelled_sets import DataOption, SetsOption, chosen_sets
from deployments.commands.terminal import (
    JsonFlag,
    err,
    meanwhile,
    out,
    output_kept_clean,
    sentences_for_errors,
)
from training.options import PopqaLabels, Precision, T5Head, T5Shape

if TYPE_CHECKING:
    from training.fine_tuning import Recipe, Trained
    from training.head_quality import Quality

train = typer.Typer(no_args_is_help=True, help="Train models on labelled data.")

RESUMES = "interrupted: the same command goes on from its last checkpoint"

OutOption = Annotated[Path, typer.Option("--out", help="Folder that the model is written to.")]
ScratchOption = Annotated[
    T5Shape | None, typer.Option(help="Instead of --base: a T5 of this shape, with random weights.")
]
LearningRateOption = Annotated[float, typer.Option(help="AdamW's, decaying to 0.", min=0)]
MaxStepsOption = Annotated[int | None, typer.Option(help="Steps at most.", min=1)]
SeedOption = Annotated[int, typer.Option(help="Of the split, the order and new weights.")]


class EvaluatorForm(StrEnum):
    """What is trained: a checkpoint's own kind, or a small head over a frozen encoder."""

    CHECKPOINT = "checkpoint"
    EMBEDDING_HEAD = "embedding_head"


@train.command("evaluator")
def train_evaluator(
    data: DataOption,
    out_folder: OutOption,
    base: Annotated[
        str | None, typer.Option(help="Folder or hub name: a T5 of any size, or another encoder.")
    ] = None,
    scratch: ScratchOption = None,
    form: Annotated[
        EvaluatorForm, typer.Option(help="embedding_head: a small head over --base, which stays frozen.")
    ] = EvaluatorForm.CHECKPOINT,
    sets: SetsOption = None,
    labels: Annotated[
        PopqaLabels,
        typer.Option(help="PopQA: the passage holds the answer, or is the gold page (paper)."),
    ] = PopqaLabels.ANSWER,
    learning_rate: LearningRateOption = 1e-4,
    warmup_share: Annotated[
        float, typer.Option(help="Share of the steps in which it rises from 0.", min=0, max=0.5)
    ] = 0.0,
    precision: Annotated[
        Precision, typer.Option(help="bfloat16: faster, on a GPU or a CPU with AMX.")
    ] = Precision.FLOAT32,
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
    max_steps: MaxStepsOption = None,
    max_pairs: Annotated[int | None, typer.Option(help="Pairs at most, whole questions.", min=1)] = None,
    seed: SeedOption = 0,
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
    with sentences_for_errors(RESUMES):
        if (base is None) == (scratch is None):
            raise SettingsError("name either --base or --scratch")
        if form is EvaluatorForm.EMBEDDING_HEAD:
            if base is None:
                raise SettingsError("an embedding_head needs --base, the encoder under it")
            _train_head(data, base, out_folder, chosen_sets(sets), as_json=as_json)
            return
        from training.fine_tuning import Recipe
        from training.labelled_pairs import describe, labelled_pairs, whole_questions

        with meanwhile("labelling pairs"):
            pairs = labelled_pairs(data, chosen_sets(sets), labels)
            pairs = whole_questions(pairs, max_pairs, seed)
        if scratch is not None:
            texts = [text for pair in pairs for text in (pair.question, pair.passage.text)]
            base = str(made_t5(out_folder, scratch, texts, seed))
        err.print(describe(pairs))
        recipe = Recipe(
            base=str(base),
            learning_rate=learning_rate,
            warmup_share=warmup_share,
            precision=precision,
            epochs=epochs,
            batch_pairs=batch_pairs,
            max_tokens=max_tokens,
            max_gradient_norm=max_gradient_norm,
            validation_share=validation_share,
            patience_epochs=patience_epochs,
            max_steps=max_steps or -1,
            seed=seed,
        )
        with output_kept_clean():
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


def made_t5(
    out_folder: Path, shape: T5Shape, texts: Iterable[str], seed: int, head: T5Head = T5Head.SCORE
) -> Path:
    """A base with random weights, beside the folder that the training will write."""
    from training.from_scratch import make_t5

    folder = out_folder.with_name(f"{out_folder.name}.base")
    if not (folder / "config.json").exists():
        with meanwhile(f"making a {shape} T5 and its vocabulary"):
            make_t5(folder, shape, texts, seed, head)
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

    with meanwhile("labelling pairs, fitting and measuring: minutes"):
        trained = train_embedding_head(data, base, folder, sets)
    if as_json:
        out.print_json(data=trained.as_json())
        return
    _print_quality("Passages as trained on", trained.quality)
    _print_quality("Relevant passages against BM25's first of other pages", trained.hard_quality)
    table = Table("other way", "AUC", "the head's is more by", title="On the latter, entities unseen")
    for other in trained.tried:
        table.add_row(other.name, f"{other.auc:.3f}", str(other.head_over_it))
    out.print(table)
    out.print(str(trained.thresholds))


def _print_quality(title: str, rows: "Sequence[Quality]") -> None:
    table = Table(
        "questions", "pairs", "AUC, entities unseen", "AUC, set unseen", "AUC, bare cosine",
        "more than cosine", title=title,
    )  # fmt: skip
    for row in rows:
        left_out = "" if row.auc_left_out is None else f"{row.auc_left_out:.3f}"
        table.add_row(
            row.name, f"{row.pairs:,}", f"{row.auc:.3f}", left_out, f"{row.auc_cosine:.3f}",
            str(row.over_cosine),
        )  # fmt: skip
    out.print(table)
