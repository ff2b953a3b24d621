"""An evaluator's counters as metrics."""

from typing import TYPE_CHECKING

from deployments.observability.meter import Meter
from deployments.observability.metrics import evaluator

if TYPE_CHECKING:
    from deployments.backends.batching.batching_stats import BatchingStats


def export_batching(
    meter: Meter, stats: "BatchingStats", rescored_pairs: int, padding_tokens: int
) -> None:
    """Bring the exported counters up to the replica's."""
    for closed, batches in stats.closed.items():
        meter.count_to(evaluator.BATCHES, batches, closed=closed)
    for lane, pairs in stats.pairs.items():
        meter.count_to(evaluator.PAIRS, pairs, lane=lane)
    for lane, seconds in stats.queue_seconds.items():
        meter.count_to(evaluator.QUEUE_SECONDS, seconds, lane=lane)
    meter.count_to(evaluator.SPARED, stats.cache_hits, why="cached")
    meter.count_to(evaluator.SPARED, stats.coalesced, why="in_flight")
    meter.count_to(evaluator.SPARED, stats.empty, why="empty")
    meter.count_to(evaluator.DROPPED, stats.dropped_abandoned, why="abandoned")
    meter.count_to(evaluator.DROPPED, stats.dropped_expired, why="expired")
    meter.count_to(evaluator.TOKENS, stats.batch_tokens)
    meter.count_to(evaluator.BUDGET_TOKENS, stats.budget_tokens)
    meter.count_to(evaluator.DEVICE_SECONDS, stats.device_seconds)
    meter.count_to(evaluator.RESCORED, rescored_pairs)
    meter.count_to(evaluator.PADDING_TOKENS, padding_tokens)
    meter.count_to(evaluator.FAILED, stats.failed)
    meter.count_to(evaluator.BISECTED, stats.bisected)
    meter.count_to(evaluator.REFUSED, stats.refused)
    meter.show(evaluator.WAITING, stats.waiting)
