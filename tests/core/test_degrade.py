"""The ladder: what an answer gives up when its deadline is close, and when its evidence is weak."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import pytest

from crag_core.context import RequestContext, until_deadline
from crag_core.degrade import NOT_ENOUGH_EVIDENCE, Ladder, Paces
from crag_core.errors import CragError, Overloaded, QualityBelowMinimum, StageTimedOut
from crag_core.protocols import Evaluation
from crag_core.settings import AnswerOptions, CragSettings
from crag_core.types import Action, Answer, Degradation, EvidenceQuality, Passage, Reason, Stage
from tests.core.test_crag import BAD, CRICKETER, GOOD, PAGE, POLITICIAN, UNSURE, World, cited
from tests.fakes import FakeEvaluator, FakeGenerator, FakeSearcher, context

WEAK = -1.5
"""Below the strip threshold of the fake evaluator."""


@dataclass
class TimelyEvaluator(FakeEvaluator):
    """Refuses, from call number `late_from` on, whatever must be there within a minute of its time."""

    late_from: int = 1
    refusal: type[CragError] = StageTimedOut

    async def evaluate(
        self, ctx: RequestContext, question: str, passages: Sequence[Passage]
    ) -> Evaluation:
        if len(self.calls) + 1 >= self.late_from and ctx.remaining_s() < 60.0:
            raise self.refusal("there is no time for it")
        return await super().evaluate(ctx, question, passages)


def hurried(world: World, generate_s: float = 30.0) -> World:
    """A world whose answers have a minute, of which the generator is known to need so much."""
    world.crag.paces[Stage.GENERATE].observe(generate_s)
    return world


def reasons(answer: Answer) -> list[tuple[Stage, Reason]]:
    return [(rung.stage, rung.reason) for rung in answer.degraded]


async def test_with_time_enough_nothing_is_given_up() -> None:
    answer = await hurried(World({POLITICIAN.text: UNSURE})).answer()
    assert (answer.degraded, answer.action) == ((), Action.AMBIGUOUS)


async def test_every_stage_leaves_the_generator_its_time() -> None:
    world = hurried(World({POLITICIAN.text: GOOD}))
    await world.answer()
    assert all(ctx.remaining_s() <= 30.0 for ctx in world.evaluator.contexts)


async def test_no_time_to_evaluate_reads_the_top_document_and_says_so() -> None:
    world = hurried(World(evaluator=TimelyEvaluator()))
    answer = await world.answer()
    assert reasons(answer) == [(Stage.EVALUATE, Reason.TOP_DOCUMENT_ONLY)]
    assert (answer.action, answer.evidence_quality) == (None, EvidenceQuality.WEAK)
    assert (cited(answer), answer.citations[0].score) == (["p1"], None)
    assert answer.text == "A politician from Blackburn."


async def test_no_time_for_strips_reads_the_best_document_whole() -> None:
    world = hurried(World({CRICKETER.text: GOOD}, evaluator=TimelyEvaluator(late_from=2)))
    answer = await world.answer()
    assert reasons(answer) == [(Stage.REFINE_INTERNAL, Reason.TOP_DOCUMENT_ONLY)]
    assert (answer.action, answer.evidence_quality) == (Action.CORRECT, EvidenceQuality.STRONG)
    assert cited(answer) == ["p2"]


@pytest.mark.parametrize("late_from", [1, 2])
async def test_without_time_to_generate_the_refusal_is_the_answer(late_from: int) -> None:
    world = World({POLITICIAN.text: GOOD}, evaluator=TimelyEvaluator(late_from=late_from))
    with pytest.raises(StageTimedOut):
        await hurried(world, generate_s=100.0).answer()


async def test_an_evaluator_that_turns_the_question_away_is_believed() -> None:
    world = hurried(World(evaluator=TimelyEvaluator(refusal=Overloaded)))
    with pytest.raises(Overloaded):
        await world.answer()


async def test_fewer_strips_are_those_of_the_best_documents() -> None:
    slow = FakeEvaluator(delay_of_first_s=0.05)
    world = hurried(World({POLITICIAN.text: UNSURE, CRICKETER.text: UNSURE + 0.1}, slow), 59.999)
    answer = await world.answer(options=AnswerOptions(search=False))
    assert (Stage.REFINE_INTERNAL, Reason.FEWER_STRIPS) in reasons(answer)
    assert answer.trace.strips_scored == 1
    assert cited(answer) == ["p2"]


async def test_a_search_that_cannot_end_in_time_is_not_begun() -> None:
    world = hurried(World(), generate_s=50.0)
    world.crag.paces[Stage.SEARCH].observe(20.0)
    answer = await world.answer()
    assert world.searcher.sought == []
    assert reasons(answer) == [
        (Stage.SEARCH, Reason.SEARCH_LEFT_OUT),
        (Stage.GENERATE, Reason.NOT_ENOUGH_EVIDENCE),
    ]
    assert answer.text == NOT_ENOUGH_EVIDENCE
    assert answer.usage.search_calls == 0


async def test_a_rung_below_the_quality_wanted_is_an_error() -> None:
    world = hurried(World(evaluator=TimelyEvaluator()))
    with pytest.raises(QualityBelowMinimum):
        await world.answer(options=AnswerOptions(min_quality=EvidenceQuality.STRONG))
    assert world.generator.prompts == []


@pytest.mark.parametrize(
    ("seconds_per_character", "left_s", "in_time"),
    [(0.001, 1.0, 3), (0.001, 0.25, 2), (0.001, 0.05, 0), (0.001, -1.0, 0), (0.0, 0.001, 3)],
)
def test_strips_are_counted_by_what_the_documents_took(
    seconds_per_character: float, left_s: float, in_time: int
) -> None:
    ladder = Ladder(context(left_s + 60.0), Paces())
    ladder.paces[Stage.GENERATE].observe(60.0)
    ladder.evaluated(1_000, 1_000 * seconds_per_character)
    assert ladder.strips_in_time([100, 100, 100]) == in_time


def weak_world(**settings: object) -> World:
    return World(
        {POLITICIAN.text: WEAK, CRICKETER.text: WEAK, PAGE.text: WEAK},
        searcher=FakeSearcher((PAGE,)),
        settings=CragSettings.model_validate({"searching": {"whole_pages": False}, **settings}),
    )


async def test_weak_evidence_is_answered_from_unless_the_settings_say_otherwise() -> None:
    assert cited(await weak_world().answer()) == ["w1"]
    answer = await weak_world(weak_evidence="abstain").answer()
    assert (answer.text, answer.citations) == (NOT_ENOUGH_EVIDENCE, ())
    assert (answer.evidence_quality, answer.usage.llm_calls) == (EvidenceQuality.NONE, 0)
    assert answer.degraded == (Degradation(Stage.GENERATE, Reason.NOT_ENOUGH_EVIDENCE),)


async def test_a_strip_above_the_threshold_anywhere_is_evidence() -> None:
    world = weak_world(weak_evidence="abstain")
    world.evaluator.scores = {PAGE.text: BAD, POLITICIAN.text: WEAK}
    assert cited(await world.answer()) == ["w1"]


@pytest.mark.parametrize(("force", "answered"), [(True, True), (False, False)])
async def test_one_request_may_want_an_answer_or_none_of_weak_evidence(
    force: bool, answered: bool
) -> None:
    world = weak_world(weak_evidence="abstain" if force else "answer")
    answer = await world.answer(options=AnswerOptions(force_answer=force))
    assert (answer.text != NOT_ENOUGH_EVIDENCE) is answered
    assert bool(answer.citations) is answered


async def test_weak_evidence_below_the_quality_wanted_is_an_error() -> None:
    with pytest.raises(QualityBelowMinimum):
        await weak_world(weak_evidence="abstain").answer(
            options=AnswerOptions(min_quality=EvidenceQuality.WEAK)
        )


async def test_a_stream_ends_at_its_deadline_and_is_closed() -> None:
    generator = FakeGenerator(("A", " B"), hang=True)
    ctx = context(0.2)
    pieces = until_deadline(ctx, "generate", generator.generate(ctx, None, None))  # type: ignore[arg-type]
    seen = []
    with pytest.raises(StageTimedOut):
        async for piece in pieces:
            seen.append(piece.text)
    assert (seen, generator.closed) == (["A", " B"], 1)


def test_a_context_knows_what_cannot_finish() -> None:
    ctx = context(10.0)
    ctx.require_time("generate", 9.0)
    with pytest.raises(StageTimedOut, match="lately took 11.00 s at least"):
        ctx.require_time("generate", 11.0)
    with pytest.raises(StageTimedOut, match="no time was left"):
        ctx.keeping(11.0).require_time("generate")
    assert math.isclose(ctx.keeping(4.0).remaining_s(), 6.0, abs_tol=0.5)
