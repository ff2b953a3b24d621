"""Callers who hang up at random, against a real evaluator: nothing stuck, lost, or wrong."""

import asyncio
import random
import time
from collections import Counter
from dataclasses import dataclass, field
from typing import Annotated

import typer

from benchmarks.report import table
from crag_core.context import RequestContext
from crag_core.types import Passage
from deployments.backends.batching.pair_scorer import score_passages
from deployments.backends.batching.scored_passage import ScoredPassage
from deployments.backends.batching.token_batcher import TokenBatcher
from deployments.backends.evaluators.scorer import Scorer, load_scorer
from deployments.settings import BatchingSettings, EvaluatorSettings

QUESTIONS = 40
PASSAGES_PER_QUESTION = 10
_WORDS = ("river", "king", "born", "film", "1900", "north", "city", "wrote", "book", "music", "war")
_TOLERANCE = 1e-5


@dataclass(slots=True)
class Outcome:
    """What became of the calls, and what was left behind."""

    ended: Counter[str] = field(default_factory=Counter)
    wrong: int = 0
    left_in_flight: int = 0
    dropped_pairs: int = 0
    scored_pairs: int = 0


def hangups(
    model: Annotated[str, typer.Option(help="Folder of the evaluator.")] = (
        "deployments/evaluators/minilm-head"
    ),
    encoder: Annotated[str | None, typer.Option(help="Its encoder.")] = ".models/all-minilm-l6-v2",
    seconds: Annotated[float, typer.Option(help="How long.", min=1, max=3600)] = 60.0,
    callers: Annotated[int, typer.Option(help="Callers at a time.", min=1, max=1000)] = 24,
    share: Annotated[float, typer.Option(help="Share of calls cancelled.", min=0, max=1)] = 0.3,
    seed: Annotated[int, typer.Option(help="Seeds questions and cancellations.")] = 1,
) -> None:
    """Cancel calls to the evaluator at random; exit 1 if a score is wrong or work is left."""
    scorer = load_scorer(EvaluatorSettings(model=model, encoder=encoder, threads=1))
    outcome = asyncio.run(_run(scorer, seconds, callers, share, random.Random(seed)))
    print(
        table(
            ["answered", "cancelled", "wrong", "pairs scored", "pairs dropped", "left in flight"],
            [
                [
                    str(outcome.ended["answered"]),
                    str(outcome.ended["cancelled"]),
                    str(outcome.wrong),
                    str(outcome.scored_pairs),
                    str(outcome.dropped_pairs),
                    str(outcome.left_in_flight),
                ]
            ],
        )
    )
    if outcome.wrong or outcome.left_in_flight:
        raise typer.Exit(1)


async def _run(
    scorer: Scorer, seconds: float, callers: int, share: float, chosen: random.Random
) -> Outcome:
    asked = [_question(number, chosen) for number in range(QUESTIONS)]
    expected = {question: score_passages(scorer, question, passages) for question, passages in asked}
    batcher = TokenBatcher(scorer, BatchingSettings(max_tokens_per_batch=1024, cached_scores=0))
    outcome = Outcome()
    give_up_s = time.monotonic() + seconds
    typical_s = 0.1

    async def call() -> None:
        nonlocal typical_s
        while time.monotonic() < give_up_s:
            question, passages = chosen.choice(asked)
            ctx = RequestContext.starting_now(question, 60)
            task = asyncio.create_task(batcher.evaluate(ctx, question, passages))
            started_s = time.monotonic()
            if chosen.random() < share:  # anywhere between queued and nearly done
                await asyncio.wait([task], timeout=chosen.uniform(0, typical_s))
                task.cancel()
            await asyncio.wait([task])
            if task.cancelled():
                outcome.ended["cancelled"] += 1
                continue
            typical_s = 0.9 * typical_s + 0.1 * (time.monotonic() - started_s)
            outcome.ended["answered"] += 1
            outcome.wrong += not _same(task.result(), expected[question])

    await asyncio.gather(*(call() for _ in range(callers)))
    stats = batcher.stats()
    outcome.left_in_flight = stats.in_flight + stats.waiting
    outcome.dropped_pairs = stats.dropped_abandoned
    outcome.scored_pairs = stats.pairs.total()
    await batcher.stop()
    return outcome


def _question(number: int, chosen: random.Random) -> tuple[str, list[Passage]]:
    passages = [
        Passage(" ".join(chosen.choices(_WORDS, k=chosen.randint(5, 60))))
        for _ in range(PASSAGES_PER_QUESTION)
    ]
    return f"Who is number {number}?", passages


def _same(scored: list[ScoredPassage], expected: list[ScoredPassage]) -> bool:
    return all(
        a.score is not None and b.score is not None and abs(a.score - b.score) <= _TOLERANCE
        for a, b in zip(scored, expected, strict=True)
    )
