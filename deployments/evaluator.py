"""The evaluator's replica."""

import time

from crag_core.protocols import Evaluation
from deployments.messages import EvaluateRequest
from deployments.observability.evaluator_metrics import export_batching
from deployments.observability.meter import meter
from deployments.settings import EvaluatorSettings

_EXPORT_EVERY_S = 1.0


class Evaluator:
    """Scores all passages of one question in one call, batched with those of other questions."""

    def __init__(self, settings: EvaluatorSettings) -> None:
        """Loads weights and manifest; raises SettingsError when they do not fit together."""
        # imported here: the node that builds the application need not load what only a replica uses
        from deployments.backends.batching.token_batcher import TokenBatcher
        from deployments.backends.evaluators.scorer import load_scorer

        self._scorer = load_scorer(settings)
        self._manifest = self._scorer.manifest
        self._batcher = TokenBatcher(self._scorer, settings.batching)
        self._exported_s = 0.0

    async def evaluate(self, request: EvaluateRequest) -> Evaluation:
        """One entry per passage, in the order given, with the thresholds that go with them."""
        ctx = request.context.localize()
        try:
            scored = await self._batcher.evaluate(ctx, request.question, request.passages)
        finally:
            self._export_metrics()
        return Evaluation(
            scores=tuple(passage.score for passage in scored),
            truncated=tuple(passage.truncated for passage in scored),
            thresholds=self._manifest.thresholds.action(),
            strip_min_score=self._manifest.thresholds.strip,
            evaluator_id=self._manifest.evaluator_id,
            queue_s=min((passage.queue_s for passage in scored), default=0.0),
        )

    def check_health(self) -> None:
        """Raises StageUnavailable when work waits and nothing moves, so that Serve replaces us."""
        self._export_metrics()
        self._batcher.raise_if_stalled()

    def _export_metrics(self) -> None:
        now_s = time.monotonic()
        if now_s - self._exported_s >= _EXPORT_EVERY_S:
            self._exported_s = now_s
            export_batching(meter(), self._batcher.stats(), self._scorer.rescored_pairs)
