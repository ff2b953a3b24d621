"""The evaluator's replica without one of its features; and the application with it.

The generator answers at once in all of them: no feature is in it, and it would drown the others.
"""

import asyncio
from collections.abc import Sequence
from copy import deepcopy
from pathlib import Path
from typing import Any

import torch
from ray import serve
from ray.serve import Application
from torch import Tensor

from benchmarks.peers.instant_stages import Generator
from crag_core.protocols import Evaluation
from deployments.app import Leaves, wired
from deployments.backends.batching.pair_scorer import PreparedPair
from deployments.backends.evaluators.classifier_checkpoint import load_classifier
from deployments.backends.t5.packed_t5 import PackedT5
from deployments.backends.t5.t5_attention import Attention, PairwiseAttention, blocks
from deployments.backends.t5.t5_engine import T5Engine
from deployments.backends.t5.t5_scorer import T5Scorer
from deployments.backends.t5.t5_weights import T5Weights
from deployments.evaluator import Evaluator
from deployments.messages import EvaluateRequest
from deployments.settings import AppSettings, EvaluatorSettings

_CPU_FLOAT32 = (torch.float32, torch.device("cpu"))


class PaddedT5(PackedT5):
    """The same products, with every pair padded to the longest of its batch."""

    def logits(self, inputs: Sequence[Sequence[int]]) -> Tensor:
        """[pairs] logits."""
        with torch.inference_mode():
            batch, _ = self.padded(inputs, len(inputs), blocks(max(map(len, inputs))))
            return self.forward(batch, PairwiseAttention(batch.spans))[: len(inputs)]


class UnprunedT5(PackedT5):
    """The decoder's top layer for all rows, of which all but the last are then thrown away."""

    def _top_layer(self, x: Tensor, last_rows: Tensor, encoded: Tensor, attention: Attention) -> Tensor:
        return x[last_rows]


class OtherEngine(T5Engine):
    """The engine over another network, in float32."""

    def __init__(
        self, model: Any, network: PackedT5, settings: EvaluatorSettings, max_tokens: int
    ) -> None:
        super().__init__(model, max_tokens=max_tokens, threads=settings.threads)
        self._exact = self._fast = network


class UnpackedEvaluator(Evaluator):
    """Pads."""

    def __init__(self, settings: EvaluatorSettings) -> None:
        """Loads the checkpoint."""
        super().__init__(settings)
        scorer = _t5(self._evaluator.scorer)
        longest, model = scorer.manifest.max_tokens, _model(settings, scorer)
        weights = T5Weights.of(model, longest, *_CPU_FLOAT32)
        scorer.engine = OtherEngine(model, PaddedT5(weights), settings, longest)


class UnprunedEvaluator(Evaluator):
    """Computes what nothing depends on."""

    def __init__(self, settings: EvaluatorSettings) -> None:
        """Loads the checkpoint with one more decoder layer, which is then the one cut short."""
        super().__init__(settings)
        scorer = _t5(self._evaluator.scorer)
        longest, model = scorer.manifest.max_tokens, _model(settings, scorer)
        decoder = model.transformer.decoder.block
        decoder.append(deepcopy(decoder[-1]))
        weights = T5Weights.of(model, longest, *_CPU_FLOAT32)
        scorer.engine = OtherEngine(model, UnprunedT5(weights), settings, longest)


class ServeBatchedEvaluator(Evaluator):
    """Batches by Ray's `@serve.batch` with its defaults, one call a pair, and keeps no scores."""

    async def evaluate(self, request: EvaluateRequest) -> Evaluation:
        """One entry per passage, in order."""
        scorer = self._evaluator.scorer
        prepared = await asyncio.to_thread(scorer.prepare, request.question, request.passages)
        full = [pair for pair in prepared if pair is not None]
        scores = iter(await asyncio.gather(*map(self._score, full)))
        return Evaluation(
            scores=tuple(None if pair is None else next(scores) for pair in prepared),
            truncated=tuple(pair is not None and pair.truncated for pair in prepared),
            thresholds=scorer.manifest.thresholds.action(),
            strip_min_score=scorer.manifest.thresholds.strip,
            evaluator_id=scorer.manifest.evaluator_id,
        )

    @serve.batch
    async def _score(self, pairs: list[PreparedPair]) -> list[float]:
        return list(await asyncio.to_thread(self._evaluator.scorer.score, pairs))


def whole(args: dict[str, Any]) -> Application:
    """The application as it is, but for the instant generator."""
    return _with(args, Evaluator)


def unpacked(args: dict[str, Any]) -> Application:
    """The application that pads."""
    return _with(args, UnpackedEvaluator)


def unpruned(args: dict[str, Any]) -> Application:
    """The application that computes the whole top layer."""
    return _with(args, UnprunedEvaluator)


def serve_batched(args: dict[str, Any]) -> Application:
    """The application without the token batcher."""
    return _with(args, ServeBatchedEvaluator)


def _with(args: dict[str, Any], evaluator: type) -> Application:
    leaves = Leaves(evaluator=evaluator, generator=Generator)
    application: Application = wired(AppSettings.model_validate(args), leaves)
    return application


def _t5(scorer: object) -> T5Scorer:
    if not isinstance(scorer, T5Scorer):
        raise TypeError(f"this feature is one of the T5 engine, and {scorer} is none")
    return scorer


def _model(settings: EvaluatorSettings, scorer: T5Scorer) -> Any:
    return load_classifier(Path(settings.model), scorer.manifest, torch.float32)
