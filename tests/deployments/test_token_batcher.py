import asyncio
import random
import threading
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import pytest

from crag_core.context import Lane, RequestContext
from crag_core.errors import (
    EvaluationFailed,
    InvalidQuestion,
    Overloaded,
    StageTimedOut,
    StageUnavailable,
)
from crag_core.types import Passage
from deployments.backends.batching.batch_queue import Closed
from deployments.backends.batching.explain_ration import ExplainRation
from deployments.backends.batching.pair_scorer import PreparedPair
from deployments.backends.batching.scored_passage import ScoredPassage
from deployments.backends.batching.token_batcher import TokenBatcher
from deployments.settings import BatchingSettings

MAX_CHARACTERS = 400


def score_of(text: str) -> float:
    """What the fake scores a passage, whatever stands beside it in the batch."""
    return float(sum(text.encode()))


@dataclass
class FakeScorer:
    """A pair's tokens are its passage's characters; texts with `poison` in them fail their batch.

    While `gate` is closed the device stands still.
    """

    identity: str = "fake"
    seconds_per_batch: float = 0.0
    seconds_per_token: float = 0.0
    wrong_length: bool = False
    batches: list[list[str]] = field(default_factory=list)
    gate: threading.Event = field(default_factory=threading.Event)
    most_prepared: int = 0
    _prepared: int = 0

    def __post_init__(self) -> None:
        self.gate.set()

    def prepare(self, question: str, passages: Sequence[Passage]) -> list[PreparedPair | None]:
        if question == "too long":
            raise InvalidQuestion("the question is too long")
        if question == "untokenizable":
            raise ValueError("no token")
        pairs = [self._pair(question, passage.text) for passage in passages]
        self._prepared += len(pairs)
        self.most_prepared = max(self.most_prepared, self._prepared)
        return pairs

    def _pair(self, question: str, text: str) -> PreparedPair | None:
        if not text.strip():
            return None
        kept = text[:MAX_CHARACTERS]
        return PreparedPair((question, kept), len(kept), kept, truncated=kept != text)

    def score(self, pairs: Sequence[PreparedPair]) -> list[float]:
        texts = [pair.payload for pair in pairs]
        self.batches.append(texts)
        self.gate.wait(timeout=10)
        time.sleep(self.seconds_per_batch + self.seconds_per_token * sum(map(len, texts)))
        self._prepared -= len(pairs)
        if any("poison" in text for text in texts):
            raise RuntimeError("bad pair")
        scores = [float("nan") if "nan" in text else score_of(text) for text in texts]
        return scores[:-1] if self.wrong_length else scores


def context(remaining_s: float = 10.0, lane: Lane = Lane.INTERACTIVE) -> RequestContext:
    return RequestContext.starting_now("request", remaining_s, lane)


def texts(*contents: str) -> list[Passage]:
    return [Passage(content) for content in contents]


def numbered(count: int, words: str = "passage number") -> list[Passage]:
    return [Passage(f"{words} {number}") for number in range(count)]


@asynccontextmanager
async def batching(scorer: FakeScorer, **options: float) -> AsyncIterator[TokenBatcher]:
    batcher = TokenBatcher(scorer, BatchingSettings.model_validate(options))
    try:
        yield batcher
        assert batcher.stats().in_flight == 0
        assert batcher.stats().waiting == 0
    finally:
        scorer.gate.set()
        await batcher.stop()


async def eventually(is_true: Callable[[], bool]) -> None:
    async with asyncio.timeout(5):
        while not is_true():  # noqa: ASYNC110 - what is waited for tells nobody
            await asyncio.sleep(0.001)


async def busy(batcher: TokenBatcher, scorer: FakeScorer) -> "asyncio.Task[list[ScoredPassage]]":
    """One request that the device works on until the gate opens."""
    scorer.gate.clear()
    task = asyncio.create_task(batcher.evaluate(context(), "running", texts("running")))
    await eventually(lambda: bool(scorer.batches))
    return task


async def waiting(batcher: TokenBatcher, pairs: int) -> None:
    await eventually(lambda: batcher.stats().waiting == pairs)


async def test_one_entry_per_passage_in_the_order_given() -> None:
    async with batching(FakeScorer()) as batcher:
        scored = await batcher.evaluate(context(), "q", texts("bb", " ", "a" * 500, "", "c", "bb"))
    assert scored == [
        ScoredPassage(score_of("bb"), False),
        ScoredPassage(None, False),
        ScoredPassage(score_of("a" * MAX_CHARACTERS), True),
        ScoredPassage(None, False),
        ScoredPassage(score_of("c"), False),
        ScoredPassage(score_of("bb"), False),
    ]


@pytest.mark.parametrize("passages", [[], texts("", " ")])
async def test_nothing_to_score_needs_no_device(passages: list[Passage]) -> None:
    scorer = FakeScorer()
    async with batching(scorer) as batcher:
        scored = await batcher.evaluate(context(), "q", passages)
    assert scored == [ScoredPassage(None, False)] * len(passages)
    assert scorer.batches == []


async def test_a_batch_is_formed_when_the_device_becomes_free() -> None:
    scorer = FakeScorer()
    async with batching(scorer) as batcher:
        first = await busy(batcher, scorer)
        others = [
            asyncio.create_task(batcher.evaluate(context(), f"q{i}", numbered(3))) for i in range(4)
        ]
        await waiting(batcher, 12)
        scorer.gate.set()
        await asyncio.gather(first, *others)
        assert [len(batch) for batch in scorer.batches] == [1, 12]
        assert batcher.stats().closed == {Closed.TOOK_ALL: 2}


async def test_no_batch_exceeds_the_token_budget() -> None:
    scorer = FakeScorer()
    rng = random.Random(7)
    passages = texts(*(f"{i} " + "x" * rng.randint(1, 150) for i in range(300)))
    async with batching(scorer, max_tokens_per_batch=100) as batcher:
        await batcher.evaluate(context(), "q", passages)
        assert batcher.stats().fill > 0.5
    for batch in scorer.batches:
        assert len(batch) == 1 or sum(map(len, batch)) <= 100


async def test_identical_pairs_in_flight_are_scored_once() -> None:
    scorer = FakeScorer()
    async with batching(scorer, cached_scores=0) as batcher:
        first = await busy(batcher, scorer)
        same = [asyncio.create_task(batcher.evaluate(context(), "q", texts("same"))) for _ in range(5)]
        await waiting(batcher, 5)
        scorer.gate.set()
        await asyncio.gather(first, *same)
        assert batcher.stats().coalesced == 4
    assert scorer.batches == [["running"], ["same"]]


async def test_identical_pairs_keep_their_own_truncation() -> None:
    scorer = FakeScorer()
    async with batching(scorer) as batcher:
        both = texts("a" * MAX_CHARACTERS, "a" * 500)
        scored = await batcher.evaluate(context(), "q", both)
        from_cache = await batcher.evaluate(context(), "q", both)
    assert [passage.truncated for passage in scored] == [False, True]
    assert from_cache == scored
    assert len(scorer.batches) == 1


async def test_a_cancelled_caller_does_not_kill_others_that_want_the_same_pair() -> None:
    scorer = FakeScorer()
    async with batching(scorer) as batcher:
        first = await busy(batcher, scorer)
        starter = asyncio.create_task(batcher.evaluate(context(), "q", texts("same", "starter's own")))
        await waiting(batcher, 2)
        joiner = asyncio.create_task(batcher.evaluate(context(), "q", texts("same")))
        await waiting(batcher, 3)
        starter.cancel()
        await asyncio.wait([starter])
        scorer.gate.set()
        assert await joiner == [ScoredPassage(score_of("same"), False)]
        await first
        assert batcher.stats().dropped_abandoned == 1
    assert scorer.batches == [["running"], ["same"]]


async def test_repeated_pairs_come_from_the_cache() -> None:
    scorer = FakeScorer()
    async with batching(scorer, cached_scores=10) as batcher:
        once = await batcher.evaluate(context(), "q", numbered(5))
        again = await batcher.evaluate(context(), "q", numbered(5))
        assert batcher.stats().cache_hits == 5
    assert again == once
    assert len(scorer.batches) == 1


@pytest.mark.parametrize("cached_scores", [0, 4])
async def test_the_cache_is_bounded_and_can_be_off(cached_scores: int) -> None:
    scorer = FakeScorer()
    async with batching(scorer, cached_scores=cached_scores) as batcher:
        await batcher.evaluate(context(), "q", numbered(10))
        await batcher.evaluate(context(), "q", numbered(10))
        assert batcher.stats().cache_hits == cached_scores


async def test_a_bad_pair_fails_its_own_caller_alone() -> None:
    scorer = FakeScorer()
    async with batching(scorer) as batcher:
        first = await busy(batcher, scorer)
        good = [asyncio.create_task(batcher.evaluate(context(), f"q{i}", numbered(5))) for i in range(6)]
        bad = asyncio.create_task(batcher.evaluate(context(), "q", texts("fine", "poison")))
        await waiting(batcher, 32)
        scorer.gate.set()
        with pytest.raises(EvaluationFailed, match="bad pair"):
            await bad
        for scored in await asyncio.gather(*good):
            assert [s.score for s in scored] == [score_of(p.text) for p in numbered(5)]
        await first
        assert batcher.stats().bisected == 1
        assert batcher.stats().failed == 1


async def test_a_score_that_is_no_number_fails_its_caller_alone() -> None:
    async with batching(FakeScorer()) as batcher:
        good, bad = await asyncio.gather(
            batcher.evaluate(context(), "q", texts("fine")),
            batcher.evaluate(context(), "q", texts("nan")),
            return_exceptions=True,
        )
    assert good == [ScoredPassage(score_of("fine"), False)]
    assert isinstance(bad, EvaluationFailed)


async def test_a_scorer_that_loses_a_score_is_an_error_not_a_shorter_list() -> None:
    async with batching(FakeScorer(wrong_length=True)) as batcher:
        with pytest.raises(EvaluationFailed, match="0 scores for 1 pairs"):
            await batcher.evaluate(context(), "q", numbered(3))


@pytest.mark.parametrize(
    ("question", "error"), [("too long", InvalidQuestion), ("untokenizable", EvaluationFailed)]
)
async def test_a_question_that_cannot_be_prepared_fails_alone(
    question: str, error: type[Exception]
) -> None:
    async with batching(FakeScorer()) as batcher:
        good, bad = await asyncio.gather(
            batcher.evaluate(context(), "q", texts("fine")),
            batcher.evaluate(context(), question, texts("fine")),
            return_exceptions=True,
        )
    assert good == [ScoredPassage(score_of("fine"), False)]
    assert isinstance(bad, error)


async def test_an_expired_caller_times_out_and_its_pairs_never_reach_the_device() -> None:
    scorer = FakeScorer()
    async with batching(scorer) as batcher:
        first = await busy(batcher, scorer)
        short = asyncio.create_task(batcher.evaluate(context(0.05), "q", texts("short")))
        long = asyncio.create_task(batcher.evaluate(context(), "q", texts("long")))
        await waiting(batcher, 2)
        with pytest.raises(StageTimedOut):
            await short
        scorer.gate.set()
        await asyncio.gather(first, long)
        assert batcher.stats().dropped_expired == 1
    assert scorer.batches == [["running"], ["long"]]


async def test_a_deadline_that_has_passed_is_refused_before_any_work() -> None:
    scorer = FakeScorer()
    async with batching(scorer) as batcher:
        with pytest.raises(StageTimedOut):
            await batcher.evaluate(context(-1.0), "q", numbered(1))
    assert scorer.most_prepared == 0


async def test_work_that_cannot_finish_before_its_deadline_is_refused_at_once() -> None:
    scorer = FakeScorer(seconds_per_token=2e-5)
    async with batching(scorer, max_tokens_per_batch=200, cached_scores=0) as batcher:
        for _ in range(10):
            await batcher.evaluate(context(), "warm up", texts("x" * 150))
        backlog = asyncio.create_task(batcher.evaluate(context(), "q", numbered(5000)))
        await eventually(lambda: batcher.stats().waiting > 0)
        assert 1.0 < batcher.predicted_wait_s(150) < 20.0
        with pytest.raises(StageTimedOut, match="takes about"):
            await batcher.evaluate(context(0.5), "large", numbered(5000))
        with pytest.raises(Overloaded, match="try again"):
            await batcher.evaluate(context(0.5, Lane.EXPLAIN), "small", texts("x" * 100))
        assert batcher.stats().refused == 2
        backlog.cancel()
        await asyncio.wait([backlog])
        await eventually(lambda: batcher.stats().in_flight == 0)


async def test_ten_thousand_pairs_hold_little_memory_and_let_interactive_work_through() -> None:
    scorer = FakeScorer(seconds_per_batch=0.001)
    async with batching(scorer, max_tokens_per_batch=2000) as batcher:
        large = asyncio.create_task(batcher.evaluate(context(60, Lane.BATCH), "q", numbered(10_000)))
        await eventually(lambda: len(scorer.batches) > 3)
        for i in range(5):
            await batcher.evaluate(context(), f"interactive {i}", texts("quick"))
        assert not large.done()
        # each went ahead of everything that waited: never behind a second batch of the large request
        assert batcher.stats().pairs[Lane.INTERACTIVE] == 5
        scored = await large
    assert [s.score for s in scored] == [score_of(p.text) for p in numbered(10_000)]
    assert scorer.most_prepared < 600


async def test_a_background_batch_is_cut_to_one_quantum_once_costs_are_known() -> None:
    scorer = FakeScorer(seconds_per_token=2e-5)
    options = {"background_quantum_s": 0.01, "max_tokens_per_batch": 4000, "cached_scores": 0}
    async with batching(scorer, **options) as batcher:
        for size in range(10):
            await batcher.evaluate(context(), "warm up", texts("x" * (100 + 20 * size)))
        await batcher.evaluate(context(lane=Lane.EXPLAIN), "q", texts(*(f"{i:0100}" for i in range(60))))
        assert batcher.stats().closed[Closed.QUANTUM] > 5
    assert max(len(batch) for batch in scorer.batches) < 20


async def test_a_device_without_progress_is_reported() -> None:
    scorer = FakeScorer()
    async with batching(scorer, stalled_after_s=0.05) as batcher:
        batcher.raise_if_stalled()
        await asyncio.sleep(0.1)
        batcher.raise_if_stalled()
        first = await busy(batcher, scorer)
        batcher.raise_if_stalled()
        await asyncio.sleep(0.1)
        with pytest.raises(StageUnavailable, match="no progress"):
            batcher.raise_if_stalled()
        scorer.gate.set()
        await first
        batcher.raise_if_stalled()


async def test_stopping_fails_those_who_wait_and_lets_the_running_batch_end() -> None:
    scorer = FakeScorer()
    batcher = TokenBatcher(scorer, BatchingSettings())
    running = await busy(batcher, scorer)
    waits = asyncio.create_task(batcher.evaluate(context(), "q", texts("waits")))
    await waiting(batcher, 1)
    stopping = asyncio.create_task(batcher.stop())
    with pytest.raises(StageUnavailable):
        await waits
    scorer.gate.set()
    await stopping
    assert await running == [ScoredPassage(score_of("running"), False)]
    with pytest.raises(StageUnavailable):
        await batcher.evaluate(context(), "q", texts("too late"))
    assert scorer.batches == [["running"]]


async def test_random_cancellation_leaves_nothing_stuck() -> None:
    """For two seconds 30 % of the callers hang up at a random moment; all others get their scores."""
    rng = random.Random(20)
    scorer = FakeScorer(seconds_per_batch=0.001, seconds_per_token=1e-6)

    async def ask(batcher: TokenBatcher, number: int) -> None:
        lane = rng.choice(list(Lane))
        passages = [Passage(f"{rng.randint(0, 400)} " + "x" * rng.randint(0, 200)) for _ in range(12)]
        call = asyncio.create_task(batcher.evaluate(context(20, lane), f"q{number % 20}", passages))
        if rng.random() < 0.3:
            await asyncio.sleep(rng.random() * 0.02)
            call.cancel()
            await asyncio.wait([call])
        else:
            scored = await call
            assert [s.score for s in scored] == [score_of(p.text) for p in passages]

    async with batching(scorer, max_tokens_per_batch=1000, cached_scores=100) as batcher:
        end = time.monotonic() + 2
        calls: list[asyncio.Task[None]] = []
        while time.monotonic() < end:
            calls.append(asyncio.create_task(ask(batcher, len(calls))))
            await asyncio.sleep(0.002)
        async with asyncio.timeout(15):
            await asyncio.gather(*calls)
        await eventually(lambda: batcher.stats().in_flight == 0)
        assert batcher.stats().dropped_abandoned > 0
        assert await batcher.evaluate(context(), "after", texts("alive"))


async def test_explanations_rest_while_answers_are_made() -> None:
    scorer = FakeScorer(seconds_per_batch=0.002)
    # after each of its batches an explanation rests for the rest of this test
    options = {"max_tokens_per_batch": 64, "explain_share": 1e-5, "answer_lasts_s": 600}
    async with batching(scorer, **options) as batcher:
        await batcher.evaluate(context(), "question", texts("an answer"))
        explained = asyncio.create_task(
            batcher.evaluate(context(60, Lane.EXPLAIN), "why", numbered(40, "explained pair number"))
        )
        await eventually(lambda: len(scorer.batches) == 2)
        await batcher.evaluate(context(), "question", texts("another answer"))
        assert [len(batch) for batch in scorer.batches] == [1, 2, 1], "one batch, then rest"
        await eventually(lambda: batcher._running is None)
        batcher.raise_if_stalled()  # a rest is no stall
        explained.cancel()
        await asyncio.wait([explained])


async def test_explanations_have_the_whole_device_while_no_answer_is_made() -> None:
    scorer = FakeScorer(seconds_per_batch=0.002)
    options = {"max_tokens_per_batch": 64, "explain_share": 1e-5, "answer_lasts_s": 0}
    async with batching(scorer, **options) as batcher:
        await batcher.evaluate(context(), "question", texts("an answer"))
        passages = numbered(40, "explained pair number")
        scored = await batcher.evaluate(context(60, Lane.EXPLAIN), "why", passages)
        assert [each.score for each in scored] == [score_of(passage.text) for passage in passages]


@pytest.mark.parametrize(
    ("now_s", "wait_s"), [(11.0, 4.0), (14.0, 1.0), (15.0, 0.0), (16.0, 0.0), (100.0, 0.0)]
)
def test_a_ration_rests_in_proportion_to_work_until_answers_are_over(
    now_s: float, wait_s: float
) -> None:
    ration = ExplainRation(share=0.2, answer_lasts_s=600.0)
    ration.answering(10.0)
    ration.explained(1.0, 11.0)
    assert ration.wait_s(now_s) == pytest.approx(wait_s)
    over = ExplainRation(share=0.2, answer_lasts_s=2.0)
    over.answering(10.0)
    over.explained(1.0, 11.0)
    assert over.wait_s(now_s) == pytest.approx(min(wait_s, max(0.0, 12.0 - now_s)))


async def test_explanations_push_no_answers_scores_out_of_the_cache() -> None:
    scorer = FakeScorer()
    async with batching(scorer, cached_scores=5) as batcher:
        await batcher.evaluate(context(), "question", texts("an answer"))
        await batcher.evaluate(context(lane=Lane.EXPLAIN), "why", numbered(20))
        assert 0 < batcher.stats().explain_seconds < batcher.stats().device_seconds
        begun = len(scorer.batches)
        await batcher.evaluate(context(), "question", texts("an answer"))
        assert len(scorer.batches) == begun


async def test_a_cancelled_explanation_leaves_nothing_behind() -> None:
    scorer = FakeScorer()
    async with batching(scorer, max_tokens_per_batch=64) as batcher:
        running = await busy(batcher, scorer)
        explained = asyncio.create_task(
            batcher.evaluate(context(lane=Lane.EXPLAIN), "why", numbered(40))
        )
        await eventually(lambda: batcher.stats().waiting > 0)
        explained.cancel()
        await asyncio.wait([explained])
        await waiting(batcher, 0)
        scorer.gate.set()
        await running
