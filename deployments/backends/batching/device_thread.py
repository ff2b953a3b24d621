"""The device thread: one batch at a time, a failing batch bisected, a heartbeat for health checks."""

import asyncio
import math
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from crag_core.errors import EvaluationFailed
from crag_core.types import Score
from deployments.backends.batching.pair_scorer import PreparedPair

Outcome = Score | EvaluationFailed


@dataclass(frozen=True, slots=True)
class DeviceStep:
    """What became of a batch: one outcome per pair; `attempts` is 1 unless it was bisected."""

    outcomes: Sequence[Outcome]
    seconds: float
    attempts: int


class DeviceThread:
    """Runs the scorer's device step off the event loop, on one thread for its whole life."""

    def __init__(self, score: Callable[[Sequence[PreparedPair]], Sequence[Score]]) -> None:
        self._score = score
        self._executor = ThreadPoolExecutor(max_workers=1, thread_name_prefix="device")
        self._attempts = 0
        self.heartbeat_s = time.monotonic()
        """When the device last began or ended a forward pass, on the monotonic clock."""

    def run(self, pairs: Sequence[PreparedPair]) -> asyncio.Future[DeviceStep]:
        """Start a batch; its failures are outcomes, never exceptions."""
        return asyncio.get_running_loop().run_in_executor(self._executor, self._step, pairs)

    def close(self) -> None:
        """Take no more batches; the one that runs is left to end by itself."""
        self._executor.shutdown(wait=False)

    def _step(self, pairs: Sequence[PreparedPair]) -> DeviceStep:
        self._attempts = 0
        started = time.perf_counter()
        outcomes = self._outcomes(pairs)
        self.heartbeat_s = time.monotonic()
        return DeviceStep(outcomes, time.perf_counter() - started, self._attempts)

    def _outcomes(self, pairs: Sequence[PreparedPair]) -> list[Outcome]:
        self.heartbeat_s = time.monotonic()
        self._attempts += 1
        try:
            scores = self._score(pairs)
            if len(scores) != len(pairs):
                raise EvaluationFailed(
                    f"the retrieval evaluator gave {len(scores)} scores for {len(pairs)} pairs"
                )
        except BaseException as error:  # a panic in native code too: only the pair at fault may fail
            if len(pairs) == 1:
                return [_failure(error)]
            middle = len(pairs) // 2
            return [*self._outcomes(pairs[:middle]), *self._outcomes(pairs[middle:])]
        return [float(score) if math.isfinite(score) else _not_a_number() for score in scores]


def _failure(error: BaseException) -> EvaluationFailed:
    if isinstance(error, EvaluationFailed):
        return error
    failed = EvaluationFailed(f"the retrieval evaluator could not score a passage: {error}")
    failed.__cause__ = error
    return failed


def _not_a_number() -> EvaluationFailed:
    return EvaluationFailed("the retrieval evaluator gave a score that is no number")
