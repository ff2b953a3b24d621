"""The embedded evaluator's head, fitted to labelled pairs; and other ways over the same features."""

import warnings
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Protocol

import numpy as np
from numpy.typing import NDArray
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import Ridge
from sklearn.neural_network import MLPRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from crag_core.types import Passage
from deployments.backends.dense_encoder import Embeddings
from deployments.backends.evaluators.evaluator_head import FEATURES, EvaluatorHead, pair_features
from deployments.backends.evaluators.evaluator_manifest import PassageForm
from training.entity_split import entity_groups
from training.labelled_pairs import LabelledPair

FORM = PassageForm.TITLE_TEXT

_UNITS = 8
_EPOCHS = 25
_WEIGHT_DECAY = 5.0
_SEED = 0

Floats = NDArray[np.float32]
Rows = NDArray[np.int64]


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


Fit = Callable[[TrainingSet, Rows], Callable[[Floats], Sequence[float]]]
"""Fits some rows, and says how features [pairs, features] are then scored."""


def training_set(pairs: Sequence[LabelledPair], encoder: Encoder) -> TrainingSet:
    """The features of labelled pairs; every question set and both labels weigh the same in the fit."""
    questions = list(dict.fromkeys(pair.question for pair in pairs))
    passages = list(dict.fromkeys(pair.passage for pair in pairs))
    question_rows = dict(zip(questions, encoder.encode(questions), strict=True))
    texts = [FORM.of(passage) for passage in passages]
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


def fit_head(examples: TrainingSet, rows: Rows, units: int = _UNITS) -> EvaluatorHead:
    """The head: one hidden layer, under the squared error."""
    features = examples.features[rows]
    mean, scale = features.mean(axis=0), np.maximum(features.std(axis=0), 1e-3)
    network = MLPRegressor(
        hidden_layer_sizes=(units,),
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


def head_scores(
    examples: TrainingSet, rows: Rows, units: int = _UNITS
) -> Callable[[Floats], Sequence[float]]:
    """The head as one way among others."""
    return fit_head(examples, rows, units).scores


def _linear(examples: TrainingSet, rows: Rows) -> Callable[[Floats], Sequence[float]]:
    model = make_pipeline(StandardScaler(), Ridge())
    model.fit(
        examples.features[rows], examples.targets[rows], ridge__sample_weight=examples.weights[rows]
    )
    predict: Callable[[Floats], Sequence[float]] = model.predict
    return predict


def _trees(examples: TrainingSet, rows: Rows) -> Callable[[Floats], Sequence[float]]:
    model = HistGradientBoostingRegressor(random_state=_SEED)
    model.fit(examples.features[rows], examples.targets[rows], examples.weights[rows])
    predict: Callable[[Floats], Sequence[float]] = model.predict
    return predict


OTHER_WAYS: Mapping[str, Fit] = {
    "linear": _linear,
    "boosted trees": _trees,
    f"{8 * _UNITS} hidden units": partial(head_scores, units=8 * _UNITS),
}
"""What else was tried over the head's features."""
