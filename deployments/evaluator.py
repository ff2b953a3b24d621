"""The evaluator's replica."""

import time
from collections.abc import Sequence

from crag_core.context import Lane
from crag_core.explaining import InputPieces
from crag_core.protocols import Evaluation
from crag_core.types import Score, Stage
from deployments.messages import EvaluateRequest, MaskedRequest, PiecesRequest
from deployments.observability.evaluator_metrics import export_batching
from deployments.observability.meter import meter
from deployments.observability.stage_times import working
from deployments.settings import EvaluatorSettings

_EXPORT_EVERY_S = 1.0


class Evaluator:
    """Scores all passages of one question in one call, batched with those of other questions."""

    def __init__(self, settings: EvaluatorSettings) -> None:
        """Loads weights and manifest; raises SettingsError when they do not fit together."""
        # imported here: the node that builds the application need not load what only a replica uses
        from deployments.backends.evaluators.batched_evaluator import BatchedEvaluator

        self._evaluator = BatchedEvaluator(settings)
        self._exported_s = 0.0
        self._busy_until = time.monotonic(), 0.0

    async def evaluate(self, request: EvaluateRequest) -> Evaluation:
        """One entry per passage, in the order given, with the thresholds that go with them."""
        ctx = request.context.localize()
        with working(ctx, Stage.EVALUATE) as work:
            try:
                evaluation = await self._evaluator.evaluate(ctx, request.question, request.passages)
            finally:
                self._export_metrics()
            work.waited_s = evaluation.queue_s
        return evaluation

    async def pieces(self, request: PiecesRequest) -> InputPieces:
        """What the evaluator reads of a pair, piece by piece."""
        ctx = request.context.localize()
        return await self._evaluator.pieces(ctx, request.question, request.passage)

    async def evaluate_masked(self, request: MaskedRequest) -> Sequence[Score]:
        """One score per set of kept pieces, in order."""
        ctx = request.context.localize()
        try:
            return await self._evaluator.evaluate_masked(
                ctx, request.question, request.passage, request.kept
            )
        finally:
            self._export_metrics()

    async def record_autoscaling_stats(self) -> dict[str, float]:
        """What EvaluatorPolicy decides by: the device's share of busy time since the last call, and the
        seconds of work that wait for it; explanations left out, which are content with what is idle."""
        stats = self._evaluator.batcher.stats()
        now_s, device_s = time.monotonic(), stats.device_seconds - stats.explain_seconds
        then_s, before_s = self._busy_until
        self._busy_until = now_s, device_s
        busy = (device_s - before_s) / (now_s - then_s) if now_s > then_s else 0.0
        return {"busy": busy, "backlog_s": self._evaluator.batcher.predicted_wait_s(0, Lane.BATCH)}

    def check_health(self) -> None:
        """Raises StageUnavailable when work waits and nothing moves, so that Serve replaces us."""
        self._export_metrics()
        self._evaluator.batcher.raise_if_stalled()

    def _export_metrics(self) -> None:
        now_s = time.monotonic()
        if now_s - self._exported_s >= _EXPORT_EVERY_S:
            self._exported_s = now_s
            scorer, stats = self._evaluator.scorer, self._evaluator.batcher.stats()
            export_batching(meter(), stats, scorer.rescored_pairs, scorer.padding_tokens)
