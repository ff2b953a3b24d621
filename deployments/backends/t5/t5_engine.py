"""The T5 engine: token ids to scores, on every core, on float32's side of every threshold."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast

import torch
from transformers import T5ForSequenceClassification

from crag_core.errors import EvaluationFailed
from crag_core.types import Score
from deployments.backends.t5.packed_t5 import PackedT5
from deployments.backends.t5.t5_cuda_graphs import GraphedT5
from deployments.backends.t5.t5_weights import T5Weights
from deployments.backends.t5.worker_threads import WorkerThreads, balanced

CPU_TOKENS_PER_PIECE = 2048
"""Enough rows for the weights to be read seldom; more of them would leave a CPU's cache."""

_CPU = torch.device("cpu")


@dataclass(frozen=True, slots=True)
class DecisionSafety:
    """Scores nearer than `epsilon` to one of the thresholds are computed again in float32."""

    thresholds: tuple[float, ...] = ()
    epsilon: float = 0.0

    def is_near(self, score: Score) -> bool:
        """Whether rounding might have carried the score over a threshold."""
        return any(abs(score - threshold) <= self.epsilon for threshold in self.thresholds)


class T5Engine:
    """Scores lists of token ids with a T5 classifier; for one calling thread at a time.

    `scored` and `rescored` count the pairs, and those of them that `safety` had computed again.
    """

    def __init__(
        self,
        model: T5ForSequenceClassification,
        *,
        max_tokens: int,
        dtype: torch.dtype = torch.float32,
        device: torch.device = _CPU,
        threads: int = 1,
        tokens_per_piece: int = CPU_TOKENS_PER_PIECE,
        safety: DecisionSafety = DecisionSafety(),
    ) -> None:
        """Takes the weights of a model in float32; raises SettingsError for an unknown activation."""
        self.safety = safety
        self.scored = 0
        self.rescored = 0
        self._max_tokens = max_tokens
        self._end_id = cast(int, model.config.eos_token_id)
        self._vocabulary = int(model.config.vocab_size)
        self._tokens_per_piece = tokens_per_piece
        self._workers = WorkerThreads(threads)
        self._exact = _network(T5Weights.of(model, max_tokens, torch.float32, device))
        self._fast = (
            self._exact
            if dtype is torch.float32
            else _network(T5Weights.of(model, max_tokens, dtype, device))
        )

    def score_ids(self, inputs: Sequence[Sequence[int]]) -> list[Score]:
        """One score per list of token ids, in order, on float32's side of every threshold.

        Raises EvaluationFailed when an input is not one the model reads, or its score is no number.
        """
        for position, ids in enumerate(inputs):
            self._check(position, ids)
        scores = self._logits(self._fast, inputs)
        self.scored += len(scores)
        if self._fast is not self._exact:
            near = [i for i, score in enumerate(scores) if self.safety.is_near(score)]
            for i, score in zip(near, self.exact_scores([inputs[i] for i in near]), strict=True):
                scores[i] = score
            self.rescored += len(near)
        for position, score in enumerate(scores):
            if not math.isfinite(score):
                raise EvaluationFailed(
                    f"the retrieval evaluator gave a score that is no number for pair {position + 1} of "
                    f"{len(scores)}: its weights are damaged, or overflow"
                )
        return scores

    def exact_scores(self, inputs: Sequence[Sequence[int]]) -> list[Score]:
        """The scores in float32, whatever the engine's dtype."""
        return self._logits(self._exact, inputs)

    def rounding_error(self, inputs: Sequence[Sequence[int]]) -> float:
        """The largest distance between the scores in the engine's dtype and in float32.

        Measured on many real pairs and doubled, it is the `epsilon` that makes decisions safe.
        """
        pairs = zip(self._logits(self._fast, inputs), self.exact_scores(inputs), strict=True)
        return max((abs(fast - exact) for fast, exact in pairs), default=0.0)

    def _logits(self, network: PackedT5 | GraphedT5, inputs: Sequence[Sequence[int]]) -> list[Score]:
        lengths = [len(ids) for ids in inputs]
        pieces = -(-sum(lengths) // self._tokens_per_piece)
        threads = self._workers.threads
        shares = balanced(lengths, -(-pieces // threads) * threads)
        logits = self._workers.map(
            lambda share: network.logits([inputs[i] for i in share]).tolist(), shares
        )
        scores = [math.nan] * len(inputs)
        for share, values in zip(shares, logits, strict=True):
            for i, value in zip(share, values, strict=True):
                scores[i] = value
        return scores

    def _check(self, position: int, ids: Sequence[int]) -> None:
        is_readable = (
            0 < len(ids) <= self._max_tokens
            and ids[-1] == self._end_id
            and min(ids) >= 0
            and max(ids) < self._vocabulary
        )
        if not is_readable:
            raise EvaluationFailed(
                f"input {position + 1} is not one that the retrieval evaluator reads: at most "
                f"{self._max_tokens} token ids below {self._vocabulary}, the end mark last"
            )


def _network(weights: T5Weights) -> PackedT5 | GraphedT5:
    packed = PackedT5(weights)
    return GraphedT5(packed) if weights.device.type == "cuda" else packed
