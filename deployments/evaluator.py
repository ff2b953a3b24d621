"""The evaluator's replica."""

from crag_core.protocols import Evaluation
from deployments.messages import EvaluateRequest
from deployments.settings import EvaluatorSettings


class Evaluator:
    """Scores all passages of one question in one call, batched with those of other questions."""

    def __init__(self, settings: EvaluatorSettings) -> None:
        """Loads weights and manifest; raises SettingsError when they do not fit together."""
        # imported here: the node that builds the application need not load what only a replica uses
        from deployments.backends.batching.token_batcher import TokenBatcher
        from deployments.backends.evaluators.scorer import load_scorer

        scorer = load_scorer(settings)
        self._manifest = scorer.manifest
        self._batcher = TokenBatcher(scorer, settings.batching)

    async def evaluate(self, request: EvaluateRequest) -> Evaluation:
        """One entry per passage, in the order given, with the thresholds that go with them."""
        ctx = request.context.localize()
        scored = await self._batcher.evaluate(ctx, request.question, request.passages)
        return Evaluation(
            scores=tuple(passage.score for passage in scored),
            truncated=tuple(passage.truncated for passage in scored),
            thresholds=self._manifest.thresholds.action(),
            strip_min_score=self._manifest.thresholds.strip,
            evaluator_id=self._manifest.evaluator_id,
        )

    def check_health(self) -> None:
        """Raises StageUnavailable when work waits and nothing moves, so that Serve replaces us."""
        self._batcher.raise_if_stalled()
