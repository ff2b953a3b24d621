"""Training a small model of pipeline `compact`, judged after each epoch as it will be served."""

import json
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Generic, Protocol, TypeVar

import torch
from rich.console import Console
from rich.progress import track
from torch.utils.data import Dataset
from transformers import Trainer, TrainingArguments, set_seed

from deployments.backends.model_folder import model_folder
from training.hop_examples import Splits
from training.runs import Prepare, StopAtNaN, begin, copy_tokenizer, go_on, losses, written_whole

REPORT = "training.json"
"""Beside the weights: how they were trained, and what each epoch and the test came to."""

_PER_TURN = 64

Example = TypeVar("Example")
Result = TypeVar("Result")
Metrics = dict[str, float]


@dataclass(frozen=True, slots=True)
class HopRecipe:
    """How a hop model is trained; equal recipes over equal data resume each other."""

    base: str
    learning_rate: float
    epochs: float
    batch_examples: int
    max_tokens: int
    weight_decay: float = 0.01
    max_steps: int = -1
    seed: int = 42
    bfloat16_on_gpu: bool = True


class Encoded(Dataset[dict[str, Any]], Generic[Example]):
    """Inputs and labels for the loss, and the examples they were made of for judging.

    `left_out` counts inputs that had no label their tokens can say.
    """

    def __init__(
        self, examples: Sequence[Example], inputs: Sequence[dict[str, Any]], left_out: int = 0
    ) -> None:
        self.examples, self.left_out, self._inputs = examples, left_out, inputs

    def __len__(self) -> int:
        return len(self._inputs)

    def __getitem__(self, place: int) -> dict[str, Any]:
        return self._inputs[place]


class HopTask(Protocol[Example]):
    """What is particular to extractor and rewriter; `best` is the metric that chooses the epoch."""

    @property
    def best(self) -> str: ...

    @property
    def model(self) -> Any: ...

    def encoded(self, examples: Sequence[Example]) -> Encoded[Example]: ...

    def collate(self, inputs: list[dict[str, Any]]) -> Mapping[str, Any]: ...

    def judged(self, model: Any, examples: Sequence[Example]) -> Metrics: ...

    def judged_by_rule(self, examples: Sequence[Example]) -> Metrics: ...


@dataclass(frozen=True, slots=True)
class TrainedHop:
    """What a training came to: losses of the logged steps, metrics by epoch, and three on the test.

    `left_out` counts inputs without a label that their tokens can say. `rule` is what serves without a
    model, `untrained` the base with the head it began with.
    """

    steps: int
    inputs: int
    left_out: int
    losses: tuple[float, ...]
    epochs: tuple[Metrics, ...]
    rule: Metrics
    untrained: Metrics
    test: Metrics


def train_hop(
    task: HopTask[Example],
    splits: Splits[Example],
    recipe: HopRecipe,
    out: Path,
    *,
    command: str,
    prepare: Prepare = lambda trainer: trainer,
) -> TrainedHop:
    """Train, keep the best epoch on the validation split, judge it on the test, write its folder.

    Checkpoints lie beside `out` until it is whole; the same call resumes from the last one. Raises
    SettingsError when base, data and folder do not fit, or the loss is no number.
    """
    work = begin(out, {**asdict(recipe), "trained_on": str(splits)})
    set_seed(recipe.seed)  # before the model: a new head's weights are drawn
    train, valid, test = (task.encoded(part) for part in (splits.train, splits.valid, splits.test))
    trainer = prepare(_trainer(task, recipe, work, train, valid))
    untrained = _plain(trainer.evaluate(test, metric_key_prefix="untrained"), "untrained")
    go_on(trainer, work)
    epochs = tuple(
        {"epoch": entry["epoch"], **_plain(entry, "eval")}
        for entry in trainer.state.log_history
        if f"eval_{task.best}" in entry
    )
    trained = TrainedHop(
        steps=trainer.state.global_step,
        inputs=len(train),
        left_out=train.left_out,
        losses=losses(trainer),
        epochs=epochs,
        rule=task.judged_by_rule(splits.test),
        untrained=untrained,
        test=_plain(trainer.evaluate(test, metric_key_prefix="test"), "test"),
    )
    model: Any = trainer.model
    with written_whole(out) as aside:
        model.save_pretrained(aside)
        copy_tokenizer(model_folder(recipe.base), aside)
        report = {
            "command": command, "trained_on": str(splits), "recipe": asdict(recipe), **asdict(trained)
        }  # fmt: skip
        (aside / REPORT).write_text(json.dumps(report, indent=1) + "\n", "utf-8")
    shutil.rmtree(work)
    return trained


def in_turns(
    examples: Sequence[Example], read: Callable[[Sequence[Example]], Sequence[Result]]
) -> list[Result]:
    """What is read of examples, some at a time, so that it can be seen how far it is."""
    turns = range(0, len(examples), _PER_TURN)
    shown = track(turns, "judging", console=Console(stderr=True), transient=True)
    return [found for first in shown for found in read(examples[first : first + _PER_TURN])]


class _JudgedTrainer(Trainer):
    """A trainer whose evaluations hold, beside the loss, what serving would make of the examples."""

    def __init__(self, judge: Callable[[Any, Sequence[Any]], Metrics], **how: Any) -> None:
        super().__init__(**how)
        self._judge = judge

    def evaluate(
        self,
        eval_dataset: Any = None,
        ignore_keys: list[str] | None = None,
        metric_key_prefix: str = "eval",
    ) -> dict[str, float]:
        """Loss and metrics of a data set, by default that of validation."""
        dataset: Any = self.eval_dataset if eval_dataset is None else eval_dataset
        found: dict[str, float] = super().evaluate(dataset, ignore_keys, metric_key_prefix)
        judged = self._judge(self.model, dataset.examples)
        named = {f"{metric_key_prefix}_{name}": value for name, value in judged.items()}
        self.log({f"{metric_key_prefix}_loss": found[f"{metric_key_prefix}_loss"], **named})
        return {**found, **named}


def _trainer(
    task: HopTask[Any], recipe: HopRecipe, work: Path, fitted: Encoded[Any], valid: Encoded[Any]
) -> Trainer:
    on_gpu = torch.cuda.is_available()
    arguments = TrainingArguments(
        output_dir=str(work),
        learning_rate=recipe.learning_rate,
        lr_scheduler_type="linear",
        warmup_steps=0,
        num_train_epochs=recipe.epochs,
        max_steps=recipe.max_steps,
        per_device_train_batch_size=recipe.batch_examples,
        per_device_eval_batch_size=4 * recipe.batch_examples,
        weight_decay=recipe.weight_decay,
        bf16=recipe.bfloat16_on_gpu and on_gpu and torch.cuda.is_bf16_supported(),
        seed=recipe.seed,
        eval_strategy="epoch",
        save_strategy="epoch",
        save_total_limit=2,
        load_best_model_at_end=True,
        metric_for_best_model=task.best,
        greater_is_better=True,
        logging_steps=5,
        logging_nan_inf_filter=False,  # a loss that is no number must be seen
        report_to=[],
        dataloader_pin_memory=on_gpu,
        remove_unused_columns=False,
        prediction_loss_only=True,
    )
    return _JudgedTrainer(
        task.judged,
        model=task.model,
        args=arguments,
        train_dataset=fitted,
        eval_dataset=valid,
        data_collator=task.collate,
        callbacks=[StopAtNaN()],
    )


def _plain(metrics: Mapping[str, float], prefix: str) -> Metrics:
    """Loss and judgements, without the prefix and without how long it took."""
    timings = ("runtime", "samples_per_second", "steps_per_second", "model_preparation_time")
    named = {name.removeprefix(f"{prefix}_"): value for name, value in metrics.items()}
    return {name: value for name, value in named.items() if name not in (*timings, "epoch", "step")}
