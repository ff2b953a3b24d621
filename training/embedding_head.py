"""Train the embedded retrieval evaluator: fit its head, set its thresholds, write its folder.

    python -m training.embedding_head --data DIR --encoder FOLDER --out FOLDER

All figures and thresholds come from questions the head was not fitted on.
"""

import warnings
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Protocol

import numpy as np
import typer
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import precision_recall_curve, roc_auc_score
from sklearn.model_selection import BaseCrossValidator, GroupKFold, LeaveOneGroupOut
from sklearn.neural_network import MLPRegressor

from crag_core.types import Passage
from deployments.backends.dense_encoder import DenseEncoder, Embeddings
from deployments.backends.evaluators.evaluator_head import EvaluatorHead, pair_features
from deployments.backends.evaluators.evaluator_manifest import (
    EvaluatorKind,
    EvaluatorManifest,
    EvaluatorThresholds,
    PassageForm,
    write_manifest,
)
from deployments.backends.model_folder import sha256_of
from deployments.settings import EncoderSettings
from training.labelled_pairs import LabelledPair, labelled_pairs

WEIGHTS = "head.safetensors"

_FORM = PassageForm.TITLE_TEXT
_MAX_TOKENS = 256
_FOLDS = 5
_UNITS = 8
_EPOCHS = 25
_WEIGHT_DECAY = 5.0
_SEED = 0

_UPPER_PRECISION = 0.8
"""Share of questions with a relevant best passage, among those whose best score reaches `upper`."""
_LOWER_MISSED = 0.1
"""Share of relevant passages below `lower`."""
_STRIP_BETA = 2.0
"""How much more a lost relevant strip weighs than a kept irrelevant one."""

Floats = NDArray[np.float32]


class Encoder(Protocol):
    """What training needs of an encoder."""

    def encode(self, texts: Sequence[str]) -> Embeddings: ...


@dataclass(frozen=True, slots=True)
class TrainingSet:
    """One row per labelled pair: features, target (-1 or +1), weight, question set and question."""

    features: Floats
    targets: Floats
    weights: Floats
    datasets: NDArray[np.str_]
    groups: NDArray[np.str_]

    @property
    def is_relevant(self) -> NDArray[np.bool_]:
        """Which pairs are relevant."""
        return self.targets > 0


@dataclass(frozen=True, slots=True)
class Quality:
    """Area under the ROC curve of one question set, with its questions unseen, then all of it."""

    dataset: str
    pairs: int
    auc: float
    auc_left_out: float | None


@dataclass(frozen=True, slots=True)
class TrainedHead:
    """A head with its thresholds and how well it does."""

    head: EvaluatorHead
    thresholds: EvaluatorThresholds
    quality: tuple[Quality, ...]


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
        groups=np.array([pair.group for pair in pairs]),
    )


def train(examples: TrainingSet) -> TrainedHead:
    """Fit the head on all pairs; measure it, and set its thresholds, on held-out questions."""
    held_out = _held_out_scores(examples, GroupKFold(_FOLDS), examples.groups)
    left_out = _held_out_scores(examples, LeaveOneGroupOut(), examples.datasets)
    relevant = examples.is_relevant
    quality = [
        Quality(
            name,
            int(rows.sum()),
            float(roc_auc_score(relevant[rows], held_out[rows])),
            float(roc_auc_score(relevant[rows], left_out[rows])),
        )
        for name in dict.fromkeys(examples.datasets.tolist())
        for rows in [examples.datasets == name]
    ]
    overall = Quality("all", len(relevant), float(roc_auc_score(relevant, held_out)), None)
    everything = np.arange(len(relevant))
    return TrainedHead(
        _fit(examples, everything),
        thresholds(relevant, held_out, examples.groups),
        (*quality, overall),
    )


def thresholds(
    is_relevant: NDArray[np.bool_], scores: Floats, groups: NDArray[np.str_]
) -> EvaluatorThresholds:
    """The thresholds that held-out scores call for, rounded to three places.

    `upper` is the lowest at which four in five questions reach it with a relevant best passage,
    since the trigger looks at a question's best passage. One relevant passage in ten stays below
    `lower`. `strip` tells relevant passages best, recall counting double (F2).
    """
    by_score = np.argsort(-scores, kind="stable")
    _, first = np.unique(groups[by_score], return_index=True)
    best = by_score[np.sort(first)]
    precision = np.cumsum(is_relevant[best]) / np.arange(1, len(best) + 1)
    precise = np.flatnonzero(precision >= _UPPER_PRECISION)
    upper = scores[best[precise[-1] if len(precise) else 0]]
    lower = np.quantile(scores[is_relevant], _LOWER_MISSED)
    precision, recall, cuts = precision_recall_curve(is_relevant, scores)
    beta = _STRIP_BETA**2
    f_beta = (1 + beta) * precision * recall / np.maximum(beta * precision + recall, 1e-9)
    return EvaluatorThresholds(
        upper=round(float(upper), 3),
        lower=round(float(min(lower, upper)), 3),
        strip=round(float(cuts[f_beta[:-1].argmax()]), 3),
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
        passage_form=_FORM,
        max_tokens=_MAX_TOKENS,
        dtype="float32",
        thresholds=trained.thresholds,
        epsilon=1e-5,
        trained_on=trained_on,
        command="python -m training.embedding_head --data DIR --encoder FOLDER --out FOLDER",
    )
    write_manifest(out, manifest)


def describe(pairs: Sequence[LabelledPair]) -> str:
    """What the head was trained on, in one sentence."""
    relevant = sum(pair.is_relevant for pair in pairs)
    sets = ", ".join(dict.fromkeys(pair.dataset for pair in pairs))
    return f"{len(pairs)} pairs, {relevant} of them relevant, of {sets}"


def main(
    data: Annotated[Path, typer.Option(help="Folder with the question sets and the corpus.")],
    encoder: Annotated[str, typer.Option(help="Folder or hub name of the encoder.")],
    out: Annotated[Path, typer.Option(help="Folder that the evaluator is written to.")],
) -> None:
    """Train the embedded retrieval evaluator's head."""
    dense = DenseEncoder(EncoderSettings(model=encoder, max_tokens=_MAX_TOKENS))
    pairs = labelled_pairs(data)
    trained = train(training_set(pairs, dense))
    write_evaluator(out, trained, dense.fingerprint, describe(pairs))
    _report(trained)


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


def _report(trained: TrainedHead) -> None:
    quality = Table("set", "pairs", "AUC, questions unseen", "AUC, set unseen")
    for row in trained.quality:
        left_out = "" if row.auc_left_out is None else f"{row.auc_left_out:.3f}"
        quality.add_row(row.dataset, str(row.pairs), f"{row.auc:.3f}", left_out)
    console = Console()
    console.print(quality, trained.thresholds)


if __name__ == "__main__":
    typer.run(main)
