"""The evaluator's replica."""

import asyncio
from concurrent.futures import ThreadPoolExecutor

from crag_core.errors import EvaluationFailed
from crag_core.protocols import Evaluation
from crag_core.types import Stage
from deployments.messages import EvaluateRequest
from deployments.settings import EvaluatorSettings

_FAILURES_OF_A_BROKEN_DEVICE = 5


class Evaluator:
    """Scores all passages of one question in one call, on one device thread."""

    def __init__(self, settings: EvaluatorSettings) -> None:
        """Loads weights and manifest; raises SettingsError when they do not fit together."""
        # imported here: the node that builds the application need not load what only a replica uses
        from deployments.backends.scorer import load_scorer

        self._scorer = load_scorer(settings)
        self._device = ThreadPoolExecutor(max_workers=1, thread_name_prefix="device")
        self._failures_in_a_row = 0

    async def evaluate(self, request: EvaluateRequest) -> Evaluation:
        """One entry per passage, in the order given, with the thresholds that go with them."""
        request.context.localize().require_time(Stage.EVALUATE)
        try:
            scored = await asyncio.get_running_loop().run_in_executor(
                self._device, self._scorer.score, request.question, request.passages
            )
        except EvaluationFailed:
            self._failures_in_a_row += 1
            raise
        self._failures_in_a_row = 0
        manifest = self._scorer.manifest
        return Evaluation(
            scores=tuple(passage.score for passage in scored),
            truncated=tuple(passage.truncated for passage in scored),
            thresholds=manifest.thresholds.action(),
            strip_min_score=manifest.thresholds.strip,
            evaluator_id=manifest.evaluator_id,
        )

    def check_health(self) -> None:
        """Raises EvaluationFailed when nothing succeeds any more, so that Serve replaces the replica."""
        if self._failures_in_a_row >= _FAILURES_OF_A_BROKEN_DEVICE:
            raise EvaluationFailed(f"the last {self._failures_in_a_row} evaluations failed")
