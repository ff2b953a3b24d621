"""The queue's decisions, pure of time and threads: what waits, and which pairs go next."""

from bisect import insort
from collections.abc import Callable, Container, Hashable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum

from crag_core.context import Lane
from deployments.backends.batching.cost_model import Load
from deployments.backends.batching.pair_scorer import PreparedPair
from deployments.backends.batching.scoring_jobs import Caller, Job


class Closed(StrEnum):
    """Why a batch took no further pair."""

    TOOK_ALL = "took_all"
    TOKENS = "tokens"
    QUANTUM = "quantum"
    OVERDUE = "overdue"


Limit = Callable[[Load], Closed | None]
"""Why a batch of this size would be too large, or None."""


@dataclass(frozen=True, slots=True)
class Batch:
    """Pairs that go through the device together, shortest first."""

    lane: Lane
    jobs: Sequence[Job]
    load: Load
    closed: Closed


class BatchQueue:
    """Waiting pairs by lane and deadline; of each lane, callers with earlier deadlines come first.

    Lanes are strict: a batch is taken from the most urgent lane where anything waits. So that nobody
    waits for ever, a pair passed over by `max_passed_over` batches joins the next one.
    """

    def __init__(self, window_tokens: int, max_passed_over: int) -> None:
        self._window_tokens = window_tokens
        self._max_passed_over = max_passed_over
        self._lanes: dict[Lane, list[Caller]] = {lane: [] for lane in Lane}
        self._jobs: dict[Hashable, Job] = {}

    def __bool__(self) -> bool:
        return any(self._lanes.values())

    def __iter__(self) -> Iterator[Caller]:
        """Callers with waiting pairs, most urgent first."""
        return (caller for lane in Lane for caller in self._lanes[lane])

    @property
    def next_lane(self) -> Lane | None:
        """The most urgent lane where anything waits."""
        return next((lane for lane in Lane if self._lanes[lane]), None)

    @property
    def in_flight(self) -> int:
        """Different pairs waiting or running."""
        return len(self._jobs)

    def add(self, caller: Caller, pair: PreparedPair, position: int, now_s: float) -> bool:
        """Let a caller wait for a pair; False when that pair was in flight already."""
        caller.want(pair, position)
        job = self._jobs.get(pair.key)
        is_new = job is None
        if job is None:
            job = self._jobs[pair.key] = Job(pair, now_s)
        if caller not in job.callers:
            job.callers[caller] = None
            if not job.is_running:
                if not caller.waiting:
                    insort(self._lanes[caller.lane], caller, key=lambda other: other.urgency)
                caller.waiting[pair.key] = job
                caller.load = caller.load.with_pair(job.pair.tokens)
        return is_new

    def leave(self, caller: Caller) -> int:
        """Forget a caller; returns how many waiting pairs nobody else wants and so are dropped."""
        if caller.waiting:
            self._lanes[caller.lane].remove(caller)
        dropped = 0
        for key in caller.unsettled:
            job = self._jobs.get(key)
            if job is None or caller not in job.callers:
                continue
            del job.callers[caller]
            if not job.callers and not job.is_running:
                del self._jobs[key]
                dropped += 1
        caller.waiting.clear()
        return dropped

    def expire(self, is_late: Callable[[Caller], bool]) -> Iterator[tuple[Caller, int]]:
        """Callers that are forgotten for being late, each with how many of its pairs are dropped."""
        for callers in self._lanes.values():
            while callers and is_late(callers[0]):
                late = callers[0]
                yield late, self.leave(late)

    def take(self, limit_of: Callable[[Lane], Limit], now_s: float) -> Batch | None:
        """The next batch, its pairs running from now on; None when nothing waits."""
        lane = self.next_lane
        if lane is None:
            return None
        candidates = dict.fromkeys(self._window(lane))
        for head in self._heads_below(lane):
            if head.passed_over >= self._max_passed_over:
                candidates[head] = None
            else:
                head.passed_over += 1
        batch = choose(lane, list(candidates), limit_of(lane), self._max_passed_over)
        for job in batch.jobs:
            self._start(job, now_s)
        return batch

    def finish(self, job: Job) -> None:
        """A running pair has its outcome."""
        del self._jobs[job.pair.key]

    def ahead_of(self, lane: Lane, deadline_s: float) -> Load:
        """What runs before a pair of this lane and deadline; a pair two callers share counts twice."""
        tokens, squares = 0, 0
        for other, callers in self._lanes.items():
            for caller in callers:
                if other is lane and caller.deadline_s > deadline_s:
                    break
                tokens += caller.load.tokens + caller.to_come.tokens
                squares += caller.load.squares + caller.to_come.squares
            if other is lane:
                break
        return Load(tokens, squares)

    def _window(self, lane: Lane) -> Iterator[Job]:
        tokens = 0
        for caller in self._lanes[lane]:
            for job in caller.waiting.values():
                yield job
                tokens += job.pair.tokens
                if tokens >= self._window_tokens:
                    return

    def _heads_below(self, lane: Lane) -> Iterator[Job]:
        """The most urgent waiting pair of each less urgent lane."""
        lanes = list(self._lanes)
        for other in lanes[lanes.index(lane) + 1 :]:
            if self._lanes[other]:
                yield next(iter(self._lanes[other][0].waiting.values()))

    def _start(self, job: Job, now_s: float) -> None:
        job.is_running = True
        job.queue_s = now_s - job.queued_s
        for caller in job.callers:
            del caller.waiting[job.pair.key]
            caller.load = caller.load.without_pair(job.pair.tokens)
            if not caller.waiting:
                self._lanes[caller.lane].remove(caller)


def choose(lane: Lane, candidates: Sequence[Job], limit: Limit, max_passed_over: int) -> Batch:
    """The next batch out of candidates that stand most urgent first; counts whom it passes over.

    Overdue pairs come first, then the most urgent pair, then those nearest to it in length, each if
    it still fits. An overdue pair that does not fit closes the batch, so that nothing passes it again.
    A pair larger than any batch goes alone.
    """
    overdue = [job for job in candidates if job.passed_over >= max_passed_over]
    first = candidates[0]
    alike = sorted(candidates, key=lambda job: abs(job.pair.tokens - first.pair.tokens))
    chosen: dict[Job, None] = {}
    load, closed = Load(), Closed.TOOK_ALL
    for job in dict.fromkeys((*overdue, first, *alike)):
        larger = load.with_pair(job.pair.tokens)
        refused = limit(larger) if chosen else None
        if refused is None:
            chosen[job] = None
            load = larger
        elif job.passed_over >= max_passed_over:
            closed = Closed.OVERDUE
            break
        elif closed is Closed.TOOK_ALL:
            closed = refused
    _count_passed_over(candidates, chosen)
    return Batch(lane, sorted(chosen, key=lambda job: job.pair.tokens), load, closed)


def _count_passed_over(candidates: Sequence[Job], chosen: Container[Job]) -> None:
    passed_over: list[Job] = []
    for job in candidates:
        if job not in chosen:
            passed_over.append(job)
        else:
            while passed_over:
                passed_over.pop().passed_over += 1
