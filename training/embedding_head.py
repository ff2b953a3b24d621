"""Train the embedded retrieval evaluator: fit its head, set its thresholds, write its folder.

    crag train evaluator --form embedding_head --data DIR --base ENCODER --out FOLDER

All figures and thresholds come from questions about entities that the head was not fitted on.
"""

import warnings
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import BaseCrossValidator, GroupKFold, LeaveOneGroupOut
from sklearn.neural_network import MLPRegressor

from crag_core.types import Passage
from deployments.backends.dense_encoder import DenseEncoder, Embeddings
from deployments.backends.evaluators.evaluator_head import FEATURES, EvaluatorHead, pair_features
from deployments.backends.evaluators.evaluator_manifest import (
    EvaluatorKind,
    EvaluatorManifest,
    EvaluatorThresholds,
    PassageForm,
    write_manifest,
)
from deployments.backends.model_folder import sha256_of
from deployments.settings import EncoderSettings
from training.entity_split import entity_groups
from training.evaluator_test import AucDifference, auc_difference
from training.labelled_pairs import LabelledPair, describe, labelled_pairs
from training.thresholds import thresholds

WEIGHTS = "head.safetensors"

_FORM = PassageForm.TITLE_TEXT
_MAX_TOKENS = 256
_FOLDS = 5
_UNITS = 8
_EPOCHS = 25
_WEIGHT_DECAY = 5.0
_SEED = 0
_FEWEST_OF_A_KIND = 20

Floats = NDArray[np.float32]


class Encoder(Protocol):
    """What training needs of an encoder."""

    def encode(self, texts: Sequence[str]) -> Embeddings: ...


@dataclass(frozen=True, slots=True)
class TrainingSet:
    """One row per labelled pair: features, target (-1 or +1), weight, set, kind, question, entities."""

    features: Floats
    targets: Floats
    weights: Floats
    datasets: NDArray[np.str_]
    kinds: NDArray[np.str_]
    groups: NDArray[np.str_]
    entities: NDArray[np.int64]

    @property
    def cosines(self) -> Floats:
        """What the bare encoder says."""
        return self.features[:, FEATURES.index("cosine")]

    @property
    def is_relevant(self) -> NDArray[np.bool_]:
        """Which pairs are relevant."""
        return self.targets > 0


@dataclass(frozen=True, slots=True)
class Quality:
    """AUC of some pairs, entities unseen, and the bare cosine's; of a set also with all of it unseen."""

    name: str
    pairs: int
    auc: float
    auc_cosine: float
    auc_left_out: float | None = None


@dataclass(frozen=True, slots=True)
class TrainedHead:
    """A head with its thresholds, how well it does, and how much better than the bare cosine."""

    head: EvaluatorHead
    thresholds: EvaluatorThresholds
    quality: tuple[Quality, ...]
    over_cosine: AucDifference

    def as_json(self) -> dict[str, Any]:
        """Everything but the weights."""
        return {
            "thresholds": self.thresholds.model_dump(),
            "quality": [asdict(row) for row in self.quality],
            "over_cosine": asdict(self.over_cosine),
        }


def training_set(pairs: Sequence[LabelledPair], encoder: Encoder) -> TrainingSet:
    """The features of labelled pairs; every question set and both labels weigh the same in the fit."""
    questions = list(dict.fromkeys(pair.question for pair in pairs))
    passages = list(dict.fromkeys(pair.passage for pair in pairs))
    question_rows = dict(zip(questions, encoder.encode(questions), strict=True))
    texts = [_FORM.of(passage) for passage in passages]
    passage_rows: dict[Passage, Floats] = dict(zip(passages, encoder.encode(texts), strict=True))
    features = [
        pair_features(
            pair.question,
            question_rows[pair.question],
            [pair.passage],
            passage_rows[pair.passage][np.newaxis],
        )
        for pair in pairs
    ]
    counts = Counter((pair.dataset, pair.is_relevant) for pair in pairs)
    shares = [1.0 / counts[pair.dataset, pair.is_relevant] for pair in pairs]
    return TrainingSet(
        features=np.vstack(features),
        targets=np.array([1.0 if pair.is_relevant else -1.0 for pair in pairs], dtype=np.float32),
        weights=np.array(shares, dtype=np.float32) * (len(pairs) / len(counts)),
        datasets=np.array([pair.dataset for pair in pairs]),
        kinds=np.array([f"{pair.dataset}: {pair.kind}" for pair in pairs]),
        groups=np.array([pair.group for pair in pairs]),
        entities=entity_groups(pairs),
    )


def train(examples: TrainingSet) -> TrainedHead:
    """Fit the head on all pairs; measure it, and set its thresholds, on held-out entities."""
    held_out = _held_out_scores(examples, GroupKFold(_FOLDS), examples.entities)
    several = len(set(examples.datasets.tolist())) > 1
    left_out = _held_out_scores(examples, LeaveOneGroupOut(), examples.datasets) if several else None
    relevant = examples.is_relevant
    return TrainedHead(
        head=_fit(examples, np.arange(len(relevant))),
        thresholds=thresholds(relevant, held_out, examples.groups),
        quality=tuple(_quality(examples, held_out, left_out)),
        over_cosine=auc_difference(relevant, held_out, examples.cosines, examples.entities),
    )


def _quality(examples: TrainingSet, held_out: Floats, left_out: Floats | None) -> Iterator[Quality]:
    """All pairs, then each set, then each kind of question that has pairs enough of both labels."""
    relevant, everything = examples.is_relevant, np.ones(len(held_out), dtype=bool)

    def of(name: str, rows: NDArray[np.bool_], scores: Floats | None = None) -> Quality:
        def auc(values: Floats) -> float:
            return float(roc_auc_score(relevant[rows], values[rows]))

        unseen = None if scores is None else auc(scores)
        return Quality(name, int(rows.sum()), auc(held_out), auc(examples.cosines), unseen)

    yield of("all", everything)
    for name in dict.fromkeys(examples.datasets.tolist()):
        yield of(name, examples.datasets == name, left_out)
    for kind in dict.fromkeys(examples.kinds.tolist()):
        rows = examples.kinds == kind
        if min(relevant[rows].sum(), (~relevant[rows]).sum()) >= _FEWEST_OF_A_KIND:
            yield of(kind, rows)


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
        passage_form=_FORM,
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
    trained = train(training_set(pairs, dense))
    write_evaluator(out, trained, dense.fingerprint, describe(pairs))
    return trained


def _fit(examples: TrainingSet, rows: NDArray[np.int64]) -> EvaluatorHead:
    features = examples.features[rows]
    mean, scale = features.mean(axis=0), np.maximum(features.std(axis=0), 1e-3)
    network = MLPRegressor(
        hidden_layer_sizes=(_UNITS,),
        alpha=_WEIGHT_DECAY,
        batch_size=min(256, len(rows)),
        learning_rate_init=2e-3,
        max_iter=_EPOCHS,
        random_state=_SEED,
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # the epochs are counted on purpose
        network.fit((features - mean) / scale, examples.targets[rows], examples.weights[rows])
    hidden, output = network.coefs_
    hidden = hidden / scale[:, np.newaxis]
    return EvaluatorHead(
        hidden_weight=hidden.astype(np.float32),
        hidden_bias=(network.intercepts_[0] - mean @ hidden).astype(np.float32),
        output_weight=output.ravel().astype(np.float32),
        output_bias=network.intercepts_[1].astype(np.float32),
    )


def _held_out_scores(examples: TrainingSet, splitter: BaseCrossValidator, groups: object) -> Floats:
    scores = np.zeros_like(examples.targets)
    for fitted, held_out in splitter.split(examples.features, groups=groups):
        scores[held_out] = _fit(examples, fitted).scores(examples.features[held_out])
    return scores
