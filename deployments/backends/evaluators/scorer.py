"""The scorer: what every kind of retrieval evaluator offers its replica, and how one is loaded."""

import logging
from typing import Protocol

import torch

from crag_core.types import Passage
from deployments.backends.batching.pair_scorer import PairScorer
from deployments.backends.device import has_bfloat16_products, torch_device
from deployments.backends.evaluators.cross_encoder import CrossEncoder
from deployments.backends.evaluators.embedding_evaluator import EmbeddingEvaluator
from deployments.backends.evaluators.evaluator_manifest import (
    EvaluatorKind,
    EvaluatorManifest,
    load_manifest,
)
from deployments.backends.evaluators.masking import MaskablePair
from deployments.backends.model_folder import model_folder
from deployments.backends.t5.t5_scorer import T5Scorer
from deployments.settings import EvaluatorSettings

logger = logging.getLogger(__name__)


class Scorer(PairScorer, Protocol):
    """A pair scorer with its manifest, which says what the scores mean: thresholds and checkpoint."""

    manifest: EvaluatorManifest

    @property
    def rescored_pairs(self) -> int:
        """Pairs computed a second time, in float32, because their score was near a threshold."""
        ...

    @property
    def padding_tokens(self) -> int:
        """Tokens of no pair that forward passes held so far, to make their inputs of one length."""
        ...

    def maskable(self, question: str, passage: Passage) -> MaskablePair:
        """The pair, to be scored with pieces of it masked; may be called by any thread."""
        ...


def load_scorer(settings: EvaluatorSettings) -> Scorer:
    """The evaluator of a folder, by the kind its manifest names; sets torch's threads on the way.

    Raises SettingsError when folder, manifest and encoder do not fit together.
    """
    torch.set_num_threads(settings.threads)
    folder = model_folder(settings.model)
    manifest = _runnable(load_manifest(folder), torch_device(settings.device))
    match manifest.kind:
        case EvaluatorKind.T5:
            return T5Scorer(folder, manifest, settings)
        case EvaluatorKind.SEQUENCE_CLASSIFIER:
            return CrossEncoder(folder, manifest, settings)
        case EvaluatorKind.EMBEDDING_HEAD:
            return EmbeddingEvaluator(folder, manifest, settings)


def _runnable(manifest: EvaluatorManifest, device: torch.device) -> EvaluatorManifest:
    """The manifest in the dtype that is fast on the device: float32 is also the more exact one."""
    if manifest.dtype != "bfloat16" or has_bfloat16_products(device):
        return manifest
    logger.warning("%s runs in float32: this CPU only emulates bfloat16", manifest.evaluator_id)
    return manifest.model_copy(update={"dtype": "float32"})
