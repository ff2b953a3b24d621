"""The scorer: what every kind of retrieval evaluator offers its replica, and how one is loaded."""

from collections.abc import Sequence
from typing import Protocol

import torch

from crag_core.types import Passage
from deployments.backends.cross_encoder import CrossEncoder
from deployments.backends.embedding_evaluator import EmbeddingEvaluator
from deployments.backends.evaluator_manifest import EvaluatorKind, EvaluatorManifest, load_manifest
from deployments.backends.model_folder import model_folder
from deployments.backends.scored_passage import ScoredPassage
from deployments.settings import EvaluatorSettings


class Scorer(Protocol):
    """Scores passages for a question, for one thread at a time.

    The manifest says what the scores mean: the thresholds, and the name of the checkpoint.
    """

    manifest: EvaluatorManifest

    def score(self, question: str, passages: Sequence[Passage]) -> list[ScoredPassage]:
        """One entry per passage, in order; raises EvaluationFailed, or InvalidQuestion if too long."""
        ...


def load_scorer(settings: EvaluatorSettings) -> Scorer:
    """The evaluator of a folder, by the kind its manifest names; sets torch's threads on the way.

    Raises SettingsError when folder, manifest and encoder do not fit together.
    """
    torch.set_num_threads(settings.threads)
    folder = model_folder(settings.model)
    manifest = load_manifest(folder)
    match manifest.kind:
        case EvaluatorKind.T5 | EvaluatorKind.SEQUENCE_CLASSIFIER:
            return CrossEncoder(folder, manifest, settings)
        case EvaluatorKind.EMBEDDING_HEAD:
            return EmbeddingEvaluator(folder, manifest, settings)
