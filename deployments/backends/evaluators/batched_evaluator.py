"""The evaluator in one process: a checkpoint behind the token batcher."""

import asyncio
from collections.abc import Sequence

from crag_core.context import RequestContext
from crag_core.errors import EvaluationFailed
from crag_core.explaining import InputPieces
from crag_core.protocols import Evaluation
from crag_core.types import Passage, Score, Stage
from deployments.backends.batching.pair_scorer import PreparedPair
from deployments.backends.batching.token_batcher import TokenBatcher
from deployments.backends.evaluators.scorer import Scorer, load_scorer
from deployments.settings import EvaluatorSettings


class BatchedEvaluator:
    """An `Evaluator`, and a `MaskableEvaluator`: all that is asked at one time shares its batches."""

    def __init__(self, settings: EvaluatorSettings) -> None:
        """Loads weights and manifest; raises SettingsError when they do not fit together."""
        self.scorer: Scorer = load_scorer(settings)
        self.batcher = TokenBatcher(self.scorer, settings.batching)

    async def evaluate(
        self, ctx: RequestContext, question: str, passages: Sequence[Passage]
    ) -> Evaluation:
        """One entry per passage, in the order given, with the thresholds that go with them."""
        scored = await self.batcher.evaluate(ctx, question, passages)
        manifest = self.scorer.manifest
        return Evaluation(
            scores=tuple(passage.score for passage in scored),
            truncated=tuple(passage.truncated for passage in scored),
            thresholds=manifest.thresholds.action(),
            strip_min_score=manifest.thresholds.strip,
            evaluator_id=manifest.evaluator_id,
            queue_s=min((passage.queue_s for passage in scored), default=0.0),
        )

    async def pieces(self, ctx: RequestContext, question: str, passage: Passage) -> InputPieces:
        """What the evaluator reads of a pair, piece by piece."""
        ctx.require_time(Stage.EXPLAIN)
        pair = await asyncio.to_thread(self.scorer.maskable, question, passage)
        return pair.read

    async def evaluate_masked(
        self, ctx: RequestContext, question: str, passage: Passage, kept: Sequence[int]
    ) -> tuple[Score, ...]:
        """One score per set of kept pieces, in order; sets that leave the same input are scored once."""
        ctx.require_time(Stage.EXPLAIN)
        pair = await asyncio.to_thread(self.scorer.maskable, question, passage)

        def prepare(kept: Sequence[int]) -> list[PreparedPair]:
            return [pair.masked(each) for each in kept]

        scored = await self.batcher.score(ctx, prepare, kept)
        return tuple(_number(passage.score) for passage in scored)


def _number(score: Score | None) -> Score:
    if score is None:
        raise EvaluationFailed("the retrieval evaluator left a masked input without a score")
    return score
