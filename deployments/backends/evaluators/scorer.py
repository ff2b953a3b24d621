"""The scorer: what every kind of retrieval evaluator offers its replica, and how one is loaded."""

from typing import Protocol

import torch

from deployments.backends.batching.pair_scorer import PairScorer
from deployments.backends.evaluators.cross_encoder import CrossEncoder
from deployments.backends.evaluators.embedding_evaluator import EmbeddingEvaluator
from deployments.backends.evaluators.evaluator_manifest import (
    EvaluatorKind,
    EvaluatorManifest,
    load_manifest,
)
from deployments.backends.model_folder import model_folder
from deployments.backends.t5.t5_scorer import T5Scorer
from deployments.settings import EvaluatorSettings


class Scorer(PairScorer, Protocol):
    """A pair scorer with its manifest, which says what the scores mean: thresholds and checkpoint."""

    manifest: EvaluatorManifest

    @property
    def rescored_pairs(self) -> int:
        """Pairs computed a second time, in float32, because their score was near a threshold."""
        ...


def load_scorer(settings: EvaluatorSettings) -> Scorer:
    """The evaluator of a folder, by the kind its manifest names; sets torch's threads on the way.

    Raises SettingsError when folder, manifest and encoder do not fit together.
    """
    torch.set_num_threads(settings.threads)
    folder = model_folder(settings.model)
    manifest = load_manifest(folder)
    match manifest.kind:
        case EvaluatorKind.T5:
            return T5Scorer(folder, manifest, settings)
        case EvaluatorKind.SEQUENCE_CLASSIFIER:
            return CrossEncoder(folder, manifest, settings)
        case EvaluatorKind.EMBEDDING_HEAD:
            return EmbeddingEvaluator(folder, manifest, settings)
