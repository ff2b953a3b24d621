"""The continuous batcher: a batch is formed when the device is free, never on a timer."""

import asyncio
import itertools
import math
import time
from collections.abc import Hashable, Iterable, Sequence
from copy import deepcopy
from functools import partial

from crag_core.context import Lane, RequestContext
from crag_core.errors import (
    EvaluationFailed,
    Overloaded,
    StageTimedOut,
    StageUnavailable,
)
from crag_core.types import Passage
from deployments.backends.batching.batch_queue import Batch, BatchQueue, Closed, Limit
from deployments.backends.batching.batching_stats import BatchingStats
from deployments.backends.batching.cost_model import Load
from deployments.backends.batching.device_thread import DeviceStep, DeviceThread, Outcome
from deployments.backends.batching.explain_ration import ExplainRation
from deployments.backends.batching.forecast import Forecast
from deployments.backends.batching.pair_scorer import PairScorer, PreparedPair
from deployments.backends.batching.prepare_thread import Item, Prepare, PrepareThread
from deployments.backends.batching.score_cache import ScoreCache
from deployments.backends.batching.scored_passage import ScoredPassage
from deployments.backends.batching.scoring_jobs import Caller
from deployments.settings import BatchingSettings

_CHUNK_PAIRS = 64
"""Passages prepared in one go: few enough that a large request holds up nobody else's preparation."""
_BATCHES_AHEAD = 2
"""A request keeps at most so many full batches of pairs waiting; the rest is not prepared yet."""


class TokenBatcher:
    """Scores the passages of many questions at once on one device.

    All state belongs to the event loop that calls `evaluate`; preparing and scoring run on one
    thread each.
    """

    def __init__(self, scorer: PairScorer, settings: BatchingSettings) -> None:
        self._scorer = scorer
        self._settings = settings
        self._preparing = PrepareThread()
        self._device = DeviceThread(scorer.score)
        self._queue = BatchQueue(
            settings.window_batches * settings.max_tokens_per_batch, settings.max_passed_over
        )
        self._forecast = Forecast(settings.max_tokens_per_batch)
        self._ration = ExplainRation(settings.explain_share, settings.answer_lasts_s)
        self._waking: asyncio.TimerHandle | None = None
        self._cache = ScoreCache(settings.cached_scores)
        self._stats = BatchingStats()
        self._arrivals = itertools.count()
        self._running: Batch | None = None
        self._step: asyncio.Future[DeviceStep] | None = None
        self._progress_s = time.monotonic()
        self._is_stopped = False

    async def evaluate(
        self, ctx: RequestContext, question: str, passages: Sequence[Passage]
    ) -> list[ScoredPassage]:
        """One entry per passage, in order; an empty passage has no score.

        Raises what `score` does.
        """
        return await self.score(ctx, partial(self._scorer.prepare, question), passages)

    async def score(
        self, ctx: RequestContext, prepare: Prepare[Item], items: Sequence[Item]
    ) -> list[ScoredPassage]:
        """One entry per item, in order; `prepare` makes pairs of items, some at a time, off the loop.

        Raises EvaluationFailed, StageTimedOut at the deadline, Overloaded when it cannot be met,
        StageUnavailable when the batcher stops, and InvalidQuestion from the scorer.
        """
        if ctx.remaining_s() <= 0:
            raise _late()
        unscored = [ScoredPassage(None, False)] * len(items)
        caller = Caller(ctx.lane, ctx.deadline_monotonic_s, next(self._arrivals), unscored)
        try:
            async with asyncio.timeout(ctx.remaining_s()):
                for start in range(0, len(items), _CHUNK_PAIRS):
                    await self._add(caller, prepare, items, start)
                await caller.until(lambda: caller.is_settled)
        except TimeoutError as error:
            self._stats.dropped_expired += self._queue.leave(caller)
            raise _late() from error
        finally:
            self._stats.dropped_abandoned += self._queue.leave(caller)
        return caller.scored

    async def stop(self) -> None:
        """Take no more work: whoever waits gets StageUnavailable, the running batch ends."""
        self._is_stopped = True
        self._preparing.close()
        for caller in list(self._queue):
            caller.fail(_stopping())
        if self._step is not None:
            await asyncio.wait([self._step], timeout=self._settings.stalled_after_s)
        self._device.close()

    def raise_if_stalled(self) -> None:
        """Raises StageUnavailable when work waits or runs, but nothing moves; for health checks."""
        if self._running is None and not self._queue:
            return
        idle_s = time.monotonic() - max(self._progress_s, self._device.heartbeat_s)
        if idle_s > self._settings.stalled_after_s:
            raise StageUnavailable(
                f"the retrieval evaluator's device has made no progress for {idle_s:.0f} s"
            )

    def predicted_wait_s(self, tokens: int, lane: Lane = Lane.INTERACTIVE) -> float:
        """Seconds until so many tokens would be scored if they came now, behind all of their lane."""
        mean_tokens = self._stats.batch_squares / max(self._stats.batch_tokens, 1)
        own = Load(tokens, round(tokens * mean_tokens))
        ahead = self._queue.ahead_of(lane, math.inf)
        return self._forecast.seconds_until_done(ahead.plus(own), time.monotonic())

    def stats(self) -> BatchingStats:
        """A copy of the counters."""
        self._stats.waiting = sum(len(caller.waiting) for caller in self._queue)
        self._stats.in_flight = self._queue.in_flight
        return deepcopy(self._stats)

    async def _add(
        self, caller: Caller, prepare: Prepare[Item], items: Sequence[Item], start: int
    ) -> None:
        """Prepare a chunk of pairs while earlier ones are scored, then let the caller wait for it."""
        chunk_items = items[start : start + _CHUNK_PAIRS]
        pairs = await self._preparing.prepare(prepare, chunk_items, caller.lane)
        room = _BATCHES_AHEAD * self._settings.max_tokens_per_batch
        await caller.until(lambda: caller.load.tokens < room)
        if self._is_stopped:
            raise _stopping()
        new = self._not_cached(caller, enumerate(pairs, start))
        chunk = Load(sum(pair.tokens for _, pair in new), sum(pair.tokens**2 for _, pair in new))
        caller.to_come = chunk.times((len(items) - start) / len(pairs) - 1)
        if start == 0 and new:
            self._refuse_if_hopeless(caller, chunk.plus(caller.to_come))
        self._enqueue(caller, new)

    def _not_cached(
        self, caller: Caller, pairs: Iterable[tuple[int, PreparedPair | None]]
    ) -> list[tuple[int, PreparedPair]]:
        """Pairs that need the device, longest first; the others get their place in the reply."""
        new: list[tuple[int, PreparedPair]] = []
        for position, pair in pairs:
            if pair is None:
                self._stats.empty += 1
            elif (score := self._cache.get(self._cache_key(pair))) is not None:
                self._stats.cache_hits += 1
                caller.scored[position] = ScoredPassage(score, pair.truncated)
            else:
                new.append((position, pair))
        new.sort(key=lambda placed: placed[1].tokens, reverse=True)
        return new

    def _cache_key(self, pair: PreparedPair) -> Hashable:
        return (self._scorer.identity, pair.key)

    def _refuse_if_hopeless(self, caller: Caller, own: Load) -> None:
        """Refuse a new request that cannot be scored in time, before any of it waits."""
        now_s = time.monotonic()
        if not self._forecast.is_trusted(now_s):
            return
        ahead = self._queue.ahead_of(caller.lane, caller.deadline_s)
        needed_s = self._forecast.seconds_until_done(ahead.plus(own), now_s)
        remaining_s = caller.deadline_s - now_s
        if needed_s <= remaining_s:
            return
        self._stats.refused += 1
        own_s = self._forecast.seconds(own)
        if own_s > remaining_s:
            raise StageTimedOut(
                f"scoring the passages takes about {own_s:.1f} s, but only {remaining_s:.1f} s were left"
            )
        raise Overloaded(
            f"the retrieval evaluator needs about {needed_s:.1f} s for this request and what waits "
            f"before it, but only {remaining_s:.1f} s were left: try again later"
        )

    def _enqueue(self, caller: Caller, pairs: Iterable[tuple[int, PreparedPair]]) -> None:
        now_s = time.monotonic()
        if self._running is None and not self._queue:
            self._progress_s = now_s
        if caller.lane is Lane.INTERACTIVE:
            self._ration.answering(now_s)
        for position, pair in pairs:
            if not self._queue.add(caller, pair, position, now_s):
                self._stats.coalesced += 1
        if self._running is None:  # not at once: what arrives in the same turn of the loop joins
            asyncio.get_running_loop().call_soon(self._dispatch)

    def _dispatch(self) -> None:
        """Form the next batch and start it, if the device is free and anything waits."""
        if self._running is not None or self._is_stopped:
            return
        now_s = time.monotonic()
        self._drop_late(now_s)
        if self._queue.next_lane is Lane.EXPLAIN and (wait_s := self._ration.wait_s(now_s)) > 0:
            self._wake_in(wait_s)
            return
        batch = self._queue.take(self._limit_of, now_s)
        if batch is None:
            return
        self._stats.count(batch, self._settings.max_tokens_per_batch)
        self._forecast.batch_starts(batch.load, now_s)
        self._running = batch
        self._step = self._device.run([job.pair for job in batch.jobs])
        self._step.add_done_callback(self._finish)

    def _wake_in(self, seconds: float) -> None:
        """Look again for work that may start then, and at once for any that comes earlier."""
        if self._waking is not None:
            self._waking.cancel()
        self._progress_s = time.monotonic() + seconds  # a rest is no stall
        self._waking = asyncio.get_running_loop().call_later(seconds, self._dispatch)

    def _drop_late(self, now_s: float) -> None:
        """Give up callers whose waiting pairs, were they next, could not be scored in time."""
        is_trusted = self._forecast.is_trusted(now_s)

        def is_late(caller: Caller) -> bool:
            own_s = self._forecast.seconds(caller.load) if is_trusted else 0.0
            return caller.deadline_s <= now_s + own_s

        for caller, dropped in self._queue.expire(is_late):
            self._stats.dropped_expired += dropped
            caller.fail(_late())

    def _limit_of(self, lane: Lane) -> Limit:
        quantum_s = self._settings.background_quantum_s
        has_quantum = lane is not Lane.INTERACTIVE and self._forecast.cost.is_warm

        def limit(load: Load) -> Closed | None:
            if load.tokens > self._settings.max_tokens_per_batch:
                return Closed.TOKENS
            if has_quantum and self._forecast.seconds(load) > quantum_s:
                return Closed.QUANTUM
            return None

        return limit

    def _finish(self, future: asyncio.Future[DeviceStep]) -> None:
        """The device is free: the next batch first, then the outcomes of this one."""
        batch, step = self._running, future.result()
        assert batch is not None
        self._running, self._step = None, None
        self._progress_s = time.monotonic()
        self._forecast.batch_ends(step.seconds if step.attempts == 1 else None, self._progress_s)
        if batch.lane is Lane.EXPLAIN:
            self._ration.explained(step.seconds, self._progress_s)
            self._stats.explain_seconds += step.seconds
        self._dispatch()
        self._stats.device_seconds += step.seconds
        self._stats.bisected += step.attempts > 1
        self._deliver(batch, step.outcomes)

    def _deliver(self, batch: Batch, outcomes: Sequence[Outcome]) -> None:
        for job, outcome in zip(batch.jobs, outcomes, strict=True):
            self._queue.finish(job)
            if isinstance(outcome, EvaluationFailed):
                self._stats.failed += 1
                for caller in job.callers:
                    caller.fail(_own(outcome))
            else:
                if (
                    batch.lane is not Lane.EXPLAIN
                ):  # masked pairs seldom return, and would push out others
                    self._cache.put(self._cache_key(job.pair), outcome)
                for caller in job.callers:
                    caller.settle(job, outcome)


def _late() -> StageTimedOut:
    return StageTimedOut("the retrieval evaluator could not score the passages before the deadline")


def _stopping() -> StageUnavailable:
    return StageUnavailable("the retrieval evaluator is shutting down")


def _own(outcome: EvaluationFailed) -> EvaluationFailed:
    """A copy for one caller: an exception that several raise would gather all their tracebacks."""
    failed = EvaluationFailed(outcome.message)
    failed.__cause__ = outcome.__cause__
    return failed
