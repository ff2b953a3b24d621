"""What the scheduler counts, for metrics."""

from collections import Counter
from dataclasses import dataclass, field

from crag_core.context import Lane
from deployments.backends.batching.batch_queue import Batch, Closed


@dataclass(slots=True)
class BatchingStats:
    """Counters since the start, all of them rising; `waiting` and `in_flight` alone are of the moment.

    Counters by lane count pairs in the lane whose batch they ran in.
    """

    batches: int = 0
    batch_tokens: int = 0
    batch_squares: int = 0
    """Sum over all pairs of tokens squared."""
    budget_tokens: int = 0
    """Sum over all batches of the tokens that they could have held."""
    closed: Counter[Closed] = field(default_factory=Counter)
    pairs: Counter[Lane] = field(default_factory=Counter)
    queue_seconds: dict[Lane, float] = field(default_factory=lambda: dict.fromkeys(Lane, 0.0))
    device_seconds: float = 0.0
    explain_seconds: float = 0.0
    """Of those, for explanations, which fill an idle device and ask for no other."""
    cache_hits: int = 0
    coalesced: int = 0
    empty: int = 0
    dropped_abandoned: int = 0
    """Waiting pairs whose callers all left: cancelled, or failed by another of their pairs."""
    dropped_expired: int = 0
    refused: int = 0
    """Requests refused because they could not have been scored in time."""
    failed: int = 0
    bisected: int = 0
    waiting: int = 0
    in_flight: int = 0

    @property
    def fill(self) -> float:
        """Mean share of the token budget that was used; 0 before the first batch."""
        return self.batch_tokens / self.budget_tokens if self.budget_tokens else 0.0

    def count(self, batch: Batch, budget_tokens: int) -> None:
        """A batch starts."""
        self.batches += 1
        self.batch_tokens += batch.load.tokens
        self.batch_squares += batch.load.squares
        self.budget_tokens += budget_tokens
        self.closed[batch.closed] += 1
        self.pairs[batch.lane] += len(batch.jobs)
        self.queue_seconds[batch.lane] += sum(job.queue_s for job in batch.jobs)
