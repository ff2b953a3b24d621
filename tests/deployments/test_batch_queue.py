from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from crag_core.context import Lane
from deployments.backends.batching.batch_queue import Batch, BatchQueue, Closed, Limit, choose
from deployments.backends.batching.cost_model import Load
from deployments.backends.batching.pair_scorer import PreparedPair
from deployments.backends.batching.scored_passage import ScoredPassage
from deployments.backends.batching.scoring_jobs import Caller, Job

BUDGET = 100


def within(tokens: int) -> Limit:
    return lambda load: Closed.TOKENS if load.tokens > tokens else None


class Queue:
    """A BatchQueue with short words for tests; a pair's key is (caller, number)."""

    def __init__(self, window_batches: int = 1, max_passed_over: int = 3) -> None:
        self.queue = BatchQueue(window_batches * BUDGET, max_passed_over)
        self.arrivals = 0

    def arrive(
        self, lengths: Sequence[int], deadline_s: float = 60.0, lane: Lane = Lane.INTERACTIVE
    ) -> Caller:
        caller = Caller(lane, deadline_s, self.arrivals, [ScoredPassage(None, False)] * 12)
        for number, tokens in enumerate(lengths):
            pair = PreparedPair((self.arrivals, number), tokens, None)
            self.queue.add(caller, pair, number, now_s=0.0)
        self.arrivals += 1
        return caller

    def join(self, caller: Caller, pair: PreparedPair) -> bool:
        return self.queue.add(caller, pair, 0, now_s=0.0)

    def take(self) -> Batch | None:
        batch = self.queue.take(lambda lane: within(BUDGET), now_s=0.0)
        for job in batch.jobs if batch else ():
            self.queue.finish(job)
            for caller in job.callers:
                caller.settle(job, 0.0)
        return batch

    def take_keys(self) -> set[object]:
        batch = self.take()
        return {job.pair.key for job in batch.jobs} if batch else set()


lengths = st.lists(st.integers(1, 150), min_size=1, max_size=12)
requests = st.lists(
    st.tuples(lengths, st.integers(1, 50), st.sampled_from(Lane)), min_size=1, max_size=15
)


@given(requests, st.integers(1, 4), st.integers(1, 4))
@settings(deadline=None)
def test_every_pair_runs_exactly_once_and_no_batch_exceeds_the_budget(
    arriving: list[tuple[list[int], int, Lane]], window: int, max_passed_over: int
) -> None:
    queue = Queue(window, max_passed_over)
    callers = [queue.arrive(pairs, deadline, lane) for pairs, deadline, lane in arriving]
    seen: list[object] = []
    while (batch := queue.take()) is not None:
        assert batch.jobs
        assert batch.load.tokens <= BUDGET or len(batch.jobs) == 1
        assert batch.load.tokens == sum(job.pair.tokens for job in batch.jobs)
        seen += [job.pair.key for job in batch.jobs]
    assert sorted(seen) == [
        (i, n) for i, (pairs, _, _) in enumerate(arriving) for n in range(len(pairs))
    ]
    assert all(caller.is_settled and caller.load == Load() for caller in callers)
    assert queue.queue.in_flight == 0


@given(st.lists(lengths, min_size=1, max_size=40), st.integers(1, 4), st.integers(1, 3))
@settings(deadline=None)
def test_no_pair_is_overtaken_more_often_than_the_bound(
    arriving: list[list[int]], window: int, max_passed_over: int
) -> None:
    """Each turn one more request arrives, behind all others, and one batch is taken."""
    queue = Queue(window, max_passed_over)
    waiting: dict[object, int] = {}
    for turn in range(10_000):
        if turn < len(arriving):
            queue.arrive(arriving[turn], deadline_s=turn)
            waiting |= {(turn, number): 0 for number in range(len(arriving[turn]))}
        taken = queue.take_keys()
        if not taken:
            break
        last_request = max(request for request, _ in taken)
        waiting = {key: n for key, n in waiting.items() if key not in taken}
        for key in waiting:
            waiting[key] += key[0] < last_request
        assert all(times <= max_passed_over for times in waiting.values())
    assert not waiting


def test_a_pair_of_odd_length_is_not_overtaken_for_ever() -> None:
    queue = Queue(window_batches=4, max_passed_over=3)
    queue.arrive([10], deadline_s=0)
    queue.arrive([90], deadline_s=1)
    batches = []
    for turn in range(6):
        queue.arrive([10] * 10, deadline_s=2 + turn)
        batches.append(queue.take_keys())
    assert (1, 0) in set().union(*batches[:4])


@pytest.mark.parametrize("slower", [Lane.BATCH, Lane.EXPLAIN])
def test_urgent_lanes_go_first(slower: Lane) -> None:
    queue = Queue()
    queue.arrive([10], lane=slower, deadline_s=1)
    queue.arrive([10], lane=Lane.INTERACTIVE, deadline_s=99)
    assert queue.take_keys() == {(1, 0)}
    assert queue.take_keys() == {(0, 0)}


def test_endless_interactive_work_does_not_starve_the_other_lanes() -> None:
    queue = Queue(max_passed_over=3)
    queue.arrive([10, 10], lane=Lane.BATCH)
    queue.arrive([10, 10], lane=Lane.EXPLAIN)
    ran: set[object] = set()
    for _ in range(8):
        queue.arrive([50, 50])
        ran |= queue.take_keys()
    assert {(0, 0), (0, 1), (1, 0), (1, 1)} <= ran


def test_earliest_deadline_goes_first_within_a_lane() -> None:
    queue = Queue()
    queue.arrive([60], deadline_s=9)
    queue.arrive([60], deadline_s=3)
    queue.arrive([60], deadline_s=6)
    assert [queue.take_keys() for _ in range(3)] == [{(1, 0)}, {(2, 0)}, {(0, 0)}]


def test_at_most_one_request_is_split_over_a_batch_border() -> None:
    queue = Queue()
    for deadline in range(6):
        queue.arrive([7, 21, 9, 13], deadline_s=deadline)
    first, second = queue.take_keys(), queue.take_keys()
    split = {request for request, _ in first} & {request for request, _ in second}
    assert len(split) <= 1


def test_a_window_of_several_batches_gathers_pairs_of_similar_length() -> None:
    queue = Queue(window_batches=3)
    for deadline in range(5):
        queue.arrive([10, 50], deadline_s=deadline)
    batch = queue.take()
    assert batch is not None
    assert [job.pair.tokens for job in batch.jobs] == [10] * 5 + [50]


def test_an_oversize_pair_runs_alone() -> None:
    queue = Queue()
    queue.arrive([500], deadline_s=1)
    queue.arrive([10, 10], deadline_s=2)
    assert queue.take_keys() == {(0, 0)}
    assert queue.take_keys() == {(1, 0), (1, 1)}


def test_a_batch_says_why_it_closed() -> None:
    queue = Queue(max_passed_over=1, window_batches=2)
    queue.arrive([60, 60])
    full, rest = queue.take(), queue.take()
    assert full is not None and rest is not None
    assert (full.closed, rest.closed) == (Closed.TOKENS, Closed.TOOK_ALL)


def test_an_overdue_pair_goes_before_more_urgent_ones() -> None:
    queue = Queue(max_passed_over=1, window_batches=3)
    queue.arrive([60], deadline_s=1)
    queue.arrive([90], deadline_s=2)
    queue.arrive([30], deadline_s=3)
    assert queue.take_keys() == {(0, 0), (2, 0)}
    queue.arrive([95], deadline_s=0)
    assert queue.take_keys() == {(1, 0)}


def test_an_overdue_pair_that_does_not_fit_closes_the_batch() -> None:
    candidates = [
        Job(PreparedPair(number, tokens, None), queued_s=0.0, passed_over=passed_over)
        for number, (tokens, passed_over) in enumerate([(60, 3), (60, 3), (30, 0)])
    ]
    batch = choose(Lane.INTERACTIVE, candidates, within(BUDGET), max_passed_over=3)
    assert [job.pair.key for job in batch.jobs] == [0]
    assert batch.closed is Closed.OVERDUE
    assert [job.passed_over for job in candidates] == [3, 3, 0]


def test_identical_pairs_are_one_job_and_the_most_urgent_caller_decides() -> None:
    queue = Queue()
    patient = queue.arrive([50], lane=Lane.BATCH)
    queue.arrive([60], deadline_s=50)
    urgent = queue.arrive([], deadline_s=1)
    assert not queue.join(urgent, PreparedPair((0, 0), 50, None))
    assert queue.take_keys() == {(0, 0)}
    assert patient.is_settled and urgent.is_settled


def test_a_caller_that_leaves_takes_only_its_own_pairs_along() -> None:
    queue = Queue()
    leaver = queue.arrive([50, 20])
    stayer = queue.arrive([])
    queue.join(stayer, PreparedPair((0, 0), 50, None))
    assert queue.queue.leave(leaver) == 1
    assert queue.take_keys() == {(0, 0)}
    assert stayer.is_settled
    assert not queue.queue


def test_late_callers_are_dropped_wherever_they_stand() -> None:
    queue = Queue()
    queue.arrive([10, 10], deadline_s=1)
    queue.arrive([10], deadline_s=2, lane=Lane.EXPLAIN)
    queue.arrive([10], deadline_s=9)
    dropped = [n for _, n in queue.queue.expire(lambda caller: caller.deadline_s < 5)]
    assert dropped == [2, 1]
    assert queue.take_keys() == {(2, 0)}


def test_ahead_of_a_caller_is_what_runs_before_it() -> None:
    queue = Queue()
    queue.arrive([10], deadline_s=1)
    queue.arrive([20], deadline_s=9)
    queue.arrive([40], deadline_s=1, lane=Lane.BATCH)
    assert queue.queue.ahead_of(Lane.INTERACTIVE, 5) == Load(10, 100)
    assert queue.queue.ahead_of(Lane.BATCH, 0.5) == Load(30, 500)
    assert queue.queue.ahead_of(Lane.EXPLAIN, 0.5).tokens == 70
