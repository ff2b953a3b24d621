"""Fine-tuning a retrieval evaluator: a T5 or another encoder with one logit, by the authors' recipe.

Defaults are those of CRAG (Yan et al. 2024): AdamW at 1e-4, linear decay without warm-up, batches of 12,
8 epochs, gradients clipped at 1, targets -1 and +1 under the squared error.
"""

import shutil
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from sklearn.metrics import roc_auc_score
from torch import Tensor
from transformers import (
    AutoModelForSequenceClassification,
    EarlyStoppingCallback,
    EvalPrediction,
    Trainer,
    TrainingArguments,
)

from crag_core.errors import SettingsError
from deployments.backends.evaluators.evaluator_manifest import (
    EvaluatorKind,
    EvaluatorManifest,
    EvaluatorThresholds,
    PassageForm,
    write_manifest,
)
from deployments.backends.model_folder import (
    model_folder,
    sha256_of,
    tokenizer_file,
    weights_file,
    weights_sha256,
)
from deployments.backends.tokenization import TextTokenizer
from training.encoded_pairs import TEMPLATE, Collate, EncodedPairs, PairEncoder, is_t5
from training.entity_split import split_by_entity
from training.labelled_pairs import LabelledPair
from training.options import Precision
from training.runs import Prepare, StopAtNaN, begin, copy_tokenizer, go_on, losses, written_whole
from training.thresholds import thresholds


@dataclass(frozen=True, slots=True)
class Recipe:
    """How an evaluator is trained; equal recipes over equal data resume each other."""

    base: str
    passage_form: PassageForm = PassageForm.TITLE_TEXT
    learning_rate: float = 1e-4
    epochs: float = 8.0
    batch_pairs: int = 12
    max_tokens: int = 512
    max_gradient_norm: float = 1.0
    warmup_share: float = 0.0
    """Share of the steps in which the learning rate rises from 0: random weights need some."""
    precision: Precision = Precision.FLOAT32
    validation_share: float = 0.1
    patience_epochs: int = 2
    max_steps: int = -1
    seed: int = 0


@dataclass(frozen=True, slots=True)
class Trained:
    """What a training came to; losses are means of the logged steps, from the first to the last."""

    steps: int
    losses: tuple[float, ...]
    auc: float
    pairs: int
    validation_pairs: int
    thresholds: EvaluatorThresholds


def fine_tune(
    pairs: Sequence[LabelledPair],
    recipe: Recipe,
    out: Path,
    *,
    trained_on: str,
    command: str,
    prepare: Prepare = lambda trainer: trainer,
) -> Trained:
    """Train, keep the best epoch by AUC on unseen entities, and write an evaluator's folder.

    Checkpoints lie beside `out` until it is whole; the same call resumes from the last one. Raises
    SettingsError when base, data, folder or machine do not fit, or the loss is no number.
    """
    _refuse_slow(recipe.precision)
    base = model_folder(recipe.base)
    work = begin(out, {**asdict(recipe), "trained_on": trained_on})
    fitted, held_out = split_by_entity(pairs, recipe.validation_share, recipe.seed)
    encode = PairEncoder(base, recipe.passage_form, recipe.max_tokens)
    trainer = prepare(_trainer(base, recipe, work, encode(fitted), encode(held_out)))
    go_on(trainer, work)
    scores = np.asarray(trainer.predict(encode(held_out)).predictions, dtype=np.float32).ravel()
    labels = np.array([pair.is_relevant for pair in held_out])
    limits = thresholds(labels, scores, np.array([pair.group for pair in held_out]))
    if trainer.is_world_process_zero():
        _write(out, trainer.model, base, recipe, limits, trained_on, command)
        shutil.rmtree(work)
    return Trained(
        steps=trainer.state.global_step,
        losses=losses(trainer),
        auc=float(roc_auc_score(labels, scores)),
        pairs=len(fitted),
        validation_pairs=len(held_out),
        thresholds=limits,
    )


def has_bfloat16_units() -> bool:
    """Whether this machine multiplies matrices in bfloat16 itself, and not by float32."""
    if torch.cuda.is_available():
        return bool(torch.cuda.is_bf16_supported(including_emulation=False))
    return bool(torch.cpu.get_capabilities().get("amx_bf16"))


def _refuse_slow(precision: Precision) -> None:
    if precision is Precision.BFLOAT16 and not has_bfloat16_units():
        raise SettingsError(
            "this machine has no matrix units for bfloat16, which would be slower than float32: leave "
            "--precision out"
        )


def _trainer(
    base: Path, recipe: Recipe, work: Path, fitted: EncodedPairs, held_out: EncodedPairs
) -> Trainer:
    try:
        model = AutoModelForSequenceClassification.from_pretrained(
            base,
            num_labels=1,
            problem_type="regression",
            trust_remote_code=False,
            dtype=torch.float32,
        )
    except (OSError, ValueError, RuntimeError, KeyError) as error:
        raise SettingsError(f"{base} holds no model that can be fine-tuned: {error}") from error
    arguments = TrainingArguments(
        output_dir=str(work),
        learning_rate=recipe.learning_rate,
        lr_scheduler_type="linear",
        warmup_steps=recipe.warmup_share,
        num_train_epochs=recipe.epochs,
        max_steps=recipe.max_steps,
        per_device_train_batch_size=recipe.batch_pairs,
        per_device_eval_batch_size=4 * recipe.batch_pairs,
        max_grad_norm=recipe.max_gradient_norm,
        weight_decay=0.0,
        bf16=recipe.precision is Precision.BFLOAT16,
        use_cpu=not torch.cuda.is_available(),
        seed=recipe.seed,
        eval_strategy="epoch",
        save_strategy="epoch",
        save_total_limit=2,
        load_best_model_at_end=True,
        metric_for_best_model="auc",
        greater_is_better=True,
        logging_steps=5,
        logging_nan_inf_filter=False,  # a loss that is no number must be seen
        report_to=[],
        dataloader_pin_memory=torch.cuda.is_available(),
        remove_unused_columns=False,
        label_names=["labels"],
    )
    tokenizer = TextTokenizer(base)
    return Trainer(
        model=model,
        args=arguments,
        train_dataset=fitted,
        eval_dataset=held_out,
        data_collator=Collate(tokenizer.pad_id, getattr(model.config, "type_vocab_size", 0) > 0),
        compute_metrics=_auc,
        preprocess_logits_for_metrics=_logits,
        callbacks=[EarlyStoppingCallback(recipe.patience_epochs), StopAtNaN()],
    )


def _logits(logits: Tensor | tuple[Tensor, ...], _: Tensor) -> Tensor:
    return logits[0] if isinstance(logits, tuple) else logits  # a T5 also returns hidden states


def _auc(prediction: EvalPrediction) -> dict[str, float]:
    scores = np.asarray(prediction.predictions).ravel()
    if not np.isfinite(scores).all():
        raise SettingsError("the model's scores are no numbers: lower --learning-rate")
    return {"auc": float(roc_auc_score(np.asarray(prediction.label_ids).ravel() > 0, scores))}


def _write(
    out: Path,
    model: Any,
    base: Path,
    recipe: Recipe,
    limits: EvaluatorThresholds,
    trained_on: str,
    command: str,
) -> None:
    """The evaluator's folder, whole or not there."""
    with written_whole(out) as aside:
        model.save_pretrained(aside)
        copy_tokenizer(base, aside)
        weights = weights_file(aside).name
        kind = EvaluatorKind.T5 if is_t5(base) else EvaluatorKind.SEQUENCE_CLASSIFIER
        write_manifest(
            aside,
            EvaluatorManifest(
                format=1,
                kind=kind,
                weights=weights,
                weights_sha256=weights_sha256(aside, weights),
                tokenizer_sha256=sha256_of(tokenizer_file(aside)),
                template=TEMPLATE if kind is EvaluatorKind.T5 else None,
                passage_form=recipe.passage_form,
                max_tokens=recipe.max_tokens,
                dtype="float32",
                thresholds=limits,
                epsilon=1e-5,
                trained_on=trained_on,
                command=command,
            ),
        )
