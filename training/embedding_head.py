"""Train the embedded retrieval evaluator: fit its head, set its thresholds, write its folder.

    crag train evaluator --form embedding_head --data DIR --base ENCODER --out FOLDER

All figures and thresholds come from questions about entities that the head was not fitted on.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from deployments.backends.dense_encoder import DenseEncoder
from deployments.backends.evaluators.evaluator_head import EvaluatorHead
from deployments.backends.evaluators.evaluator_manifest import (
    EvaluatorKind,
    EvaluatorManifest,
    EvaluatorThresholds,
    write_manifest,
)
from deployments.backends.model_folder import sha256_of
from deployments.settings import EncoderSettings
from training.hard_pairs import hard_pairs
from training.head_fitting import FORM, TrainingSet, fit_head, training_set
from training.head_quality import Quality, Tried, qualities, tried, unseen_entities, unseen_sets
from training.labelled_pairs import describe, labelled_pairs
from training.thresholds import thresholds

WEIGHTS = "head.safetensors"

_MAX_TOKENS = 256


@dataclass(frozen=True, slots=True)
class TrainedHead:
    """A head with its thresholds; how well it does on pairs as trained on, and on the hardest.

    `tried` are other ways over the same features, on the hardest pairs.
    """

    head: EvaluatorHead
    thresholds: EvaluatorThresholds
    quality: tuple[Quality, ...]
    hard_quality: tuple[Quality, ...]
    tried: tuple[Tried, ...]

    def as_json(self) -> dict[str, Any]:
        """Everything but the weights."""
        return {
            "thresholds": self.thresholds.model_dump(),
            "quality": [asdict(row) for row in self.quality],
            "hard_quality": [asdict(row) for row in self.hard_quality],
            "tried": [asdict(row) for row in self.tried],
        }


def train(examples: TrainingSet, hard: TrainingSet) -> TrainedHead:
    """Fit the head on all examples; measure it, and set its thresholds, on held-out entities.

    `hard` are other pairs of the same questions, to measure on.
    """
    measured = (examples, hard)
    held_out = unseen_entities(examples, measured)
    left_out = unseen_sets(examples, measured) or (None, None)
    quality, hard_quality = (
        tuple(qualities(*each)) for each in zip(measured, held_out, left_out, strict=True)
    )
    return TrainedHead(
        head=fit_head(examples, np.arange(len(examples.targets))),
        thresholds=thresholds(examples.is_relevant, held_out[0], examples.groups),
        quality=quality,
        hard_quality=hard_quality,
        tried=tuple(tried(examples, hard, held_out[1])),
    )


def write_evaluator(out: Path, trained: TrainedHead, encoder_sha256: str, trained_on: str) -> None:
    """Write head and manifest; the manifest last, so that a half-written folder is refused."""
    out.mkdir(parents=True, exist_ok=True)
    trained.head.save(out / WEIGHTS)
    manifest = EvaluatorManifest(
        format=1,
        kind=EvaluatorKind.EMBEDDING_HEAD,
        weights=WEIGHTS,
        weights_sha256=sha256_of(out / WEIGHTS),
        encoder_sha256=encoder_sha256,
        passage_form=FORM,
        max_tokens=_MAX_TOKENS,
        dtype="float32",
        thresholds=trained.thresholds,
        epsilon=1e-5,
        trained_on=trained_on,
        command="crag train evaluator --form embedding_head --data DIR --base ENCODER --out FOLDER",
    )
    write_manifest(out, manifest)


def train_embedding_head(data: Path, encoder: str, out: Path, sets: Sequence[str]) -> TrainedHead:
    """Label, fit, measure and write; raises SettingsError."""
    dense = DenseEncoder(EncoderSettings(model=encoder, max_tokens=_MAX_TOKENS))
    pairs = labelled_pairs(data, sets)
    hard = hard_pairs(data, pairs)
    trained = train(training_set(pairs, dense), training_set(hard, dense))
    write_evaluator(out, trained, dense.fingerprint, describe(pairs))
    return trained
