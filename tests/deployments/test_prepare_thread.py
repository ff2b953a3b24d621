import asyncio
import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial

import pytest

from crag_core.context import Lane
from crag_core.errors import EvaluationFailed, StageUnavailable
from crag_core.types import Passage
from deployments.backends.batching.pair_scorer import PreparedPair
from deployments.backends.batching.prepare_thread import PrepareThread


@dataclass
class FakeTokenizer:
    """Notes the questions it prepares; stands still while `gate` is closed."""

    questions: list[str] = field(default_factory=list)
    gate: threading.Event = field(default_factory=threading.Event)

    def prepare(self, question: str, passages: Sequence[Passage]) -> list[PreparedPair | None]:
        self.questions.append(question)
        self.gate.wait(timeout=10)
        if question == "short":
            return []
        return [PreparedPair((question, passage.text), 1, None) for passage in passages]


async def started(
    tokenizer: FakeTokenizer, thread: PrepareThread, question: str
) -> asyncio.Task[object]:
    task: asyncio.Task[object] = asyncio.create_task(
        thread.prepare(partial(tokenizer.prepare, question), [Passage("p")])
    )
    await asyncio.sleep(0)
    while not tokenizer.questions:  # noqa: ASYNC110 - the thread tells nobody that it has begun
        await asyncio.sleep(0.001)
    return task


async def test_what_arrives_while_the_thread_is_busy_is_prepared_in_order() -> None:
    tokenizer = FakeTokenizer()
    thread = PrepareThread()
    first = await started(tokenizer, thread, "q0")
    others = [
        asyncio.create_task(thread.prepare(partial(tokenizer.prepare, f"q{i}"), [Passage("p")]))
        for i in range(1, 200)
    ]
    await asyncio.sleep(0)
    tokenizer.gate.set()
    prepared = await asyncio.gather(first, *others)
    thread.close()
    assert tokenizer.questions == [f"q{i}" for i in range(200)]
    assert prepared == [[PreparedPair((f"q{i}", "p"), 1, None)] for i in range(200)]


async def test_more_urgent_lanes_are_prepared_first() -> None:
    tokenizer = FakeTokenizer()
    thread = PrepareThread()
    first = await started(tokenizer, thread, "first")
    lanes = [Lane.EXPLAIN, Lane.EXPLAIN, Lane.BATCH, Lane.INTERACTIVE]
    others = [
        asyncio.create_task(
            thread.prepare(partial(tokenizer.prepare, f"{lane} {place}"), [Passage("p")], lane)
        )
        for place, lane in enumerate(lanes)
    ]
    await asyncio.sleep(0)
    tokenizer.gate.set()
    await asyncio.gather(first, *others)
    thread.close()
    assert tokenizer.questions == ["first", "interactive 3", "batch 2", "explain 0", "explain 1"]


async def test_nothing_is_prepared_for_a_caller_that_has_left() -> None:
    tokenizer = FakeTokenizer()
    thread = PrepareThread()
    first = await started(tokenizer, thread, "first")
    leaver = asyncio.create_task(thread.prepare(partial(tokenizer.prepare, "leaver"), [Passage("p")]))
    stayer = asyncio.create_task(thread.prepare(partial(tokenizer.prepare, "stayer"), [Passage("p")]))
    await asyncio.sleep(0)
    leaver.cancel()
    await asyncio.wait([leaver])
    tokenizer.gate.set()
    await asyncio.gather(first, stayer)
    thread.close()
    assert tokenizer.questions == ["first", "stayer"]


async def test_a_passage_that_is_lost_is_an_error() -> None:
    tokenizer = FakeTokenizer()
    tokenizer.gate.set()
    thread = PrepareThread()
    with pytest.raises(EvaluationFailed, match="1 passages were prepared as 0 pairs"):
        await thread.prepare(partial(tokenizer.prepare, "short"), [Passage("p")])
    thread.close()


async def test_closing_fails_those_who_wait_and_finishes_what_runs() -> None:
    tokenizer = FakeTokenizer()
    thread = PrepareThread()
    running = await started(tokenizer, thread, "running")
    waits = asyncio.create_task(thread.prepare(partial(tokenizer.prepare, "waits"), [Passage("p")]))
    await asyncio.sleep(0)
    thread.close()
    tokenizer.gate.set()
    assert await running == [PreparedPair(("running", "p"), 1, None)]
    with pytest.raises(StageUnavailable):
        await waits
    with pytest.raises(StageUnavailable):
        await thread.prepare(partial(tokenizer.prepare, "late"), [Passage("p")])
