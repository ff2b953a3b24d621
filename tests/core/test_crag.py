import asyncio
from dataclasses import InitVar, dataclass, field, replace
from typing import Any

import pytest

from crag_core.crag import Crag
from crag_core.degrade import NOT_ENOUGH_EVIDENCE
from crag_core.errors import (
    CragError,
    EvaluationFailed,
    GenerationFailed,
    Overloaded,
    PromptTooLong,
    QualityBelowMinimum,
    RetrievalFailed,
    SearchBudgetSpent,
    SearchCircuitOpen,
    SearchFailed,
    SearchThrottled,
    SearchTimedOut,
    StageTimedOut,
    StageUnavailable,
)
from crag_core.generation import AnswerWriter
from crag_core.protocols import Ask
from crag_core.settings import AnswerOptions, CragSettings
from crag_core.types import (
    Action,
    Answer,
    Degradation,
    Document,
    DocumentSource,
    EvidenceQuality,
    Question,
    Stage,
    StageRecord,
    Trace,
)
from tests.fakes import (
    FakeEvaluator,
    FakeGenerator,
    FakeRetriever,
    FakeSearcher,
    FakeTokenCounter,
    context,
)

POLITICIAN = Document("p1", "Henry Feilden was a Conservative politician in Blackburn.", "Feilden")
CRICKETER = Document("p2", "Another Henry Feilden played cricket for Hampshire once.", "Cricket")
EMPTY = Document("p3", "  ", "Nothing")
PAGE = Document(
    "w1",
    "Feilden sat in the House of Commons from 1869 onwards.",
    "Henry Feilden",
    DocumentSource.WIKIPEDIA,
    "https://en.wikipedia.org/?oldid=7",
    "7",
)
QUESTION = Question("What is Henry Feilden's occupation?")

GOOD, UNSURE, BAD = 0.9, 0.0, -0.9


@dataclass
class World:
    """A Crag over fakes: two passages in the corpus, one page on the web."""

    scores: InitVar[dict[str, float] | None] = None
    evaluator: FakeEvaluator = field(default_factory=FakeEvaluator)
    retriever: FakeRetriever = field(
        default_factory=lambda: FakeRetriever((POLITICIAN, CRICKETER, EMPTY))
    )
    searcher: FakeSearcher = field(default_factory=lambda: FakeSearcher((PAGE,)))
    snapshot: FakeSearcher = field(default_factory=FakeSearcher)
    generator: FakeGenerator = field(default_factory=FakeGenerator)
    settings: CragSettings = field(default_factory=CragSettings)

    def __post_init__(self, scores: dict[str, float] | None) -> None:
        self.evaluator.scores, self.evaluator.default = scores or {}, BAD
        self.crag = Crag(
            self.retriever,
            self.evaluator,
            (self.searcher, self.snapshot),
            AnswerWriter(self.generator, FakeTokenCounter()),
            self.settings,
        )

    async def pieces(self, **ask: Any) -> list[str | Answer]:
        return [piece async for piece in self.crag.stream(context(), Ask(QUESTION, **ask))]

    async def answer(self, **ask: Any) -> Answer:
        *texts, answer = await self.pieces(**ask)
        assert isinstance(answer, Answer)
        assert "".join(map(str, texts)) == answer.text
        return answer


def cited(answer: Answer) -> list[str]:
    return [citation.document_id for citation in answer.citations]


async def test_correct_answers_from_the_corpus_and_does_not_search() -> None:
    world = World({POLITICIAN.text: GOOD, CRICKETER.text: BAD})
    answer = await world.answer()
    assert (answer.action, answer.evidence_quality) == (Action.CORRECT, EvidenceQuality.STRONG)
    assert cited(answer) == ["p1"]
    assert world.searcher.sought == []
    assert answer.text == "A politician from Blackburn."
    assert answer.degraded == ()
    assert (answer.usage.llm_calls, answer.usage.search_calls) == (1, 0)


async def test_incorrect_drops_the_corpus_and_answers_from_the_web() -> None:
    world = World({PAGE.text: UNSURE})
    answer = await world.answer()
    assert (answer.action, answer.evidence_quality) == (Action.INCORRECT, EvidenceQuality.WEAK)
    assert cited(answer) == ["w1"]
    (sought,) = world.searcher.sought
    assert sought.text == QUESTION.text
    assert sought.hints[0] == f"{POLITICIAN.title}\n{POLITICIAN.text}"
    assert world.snapshot.sought == []
    citation = answer.citations[0]
    assert (citation.url, citation.revision) == (PAGE.url, "7")
    assert PAGE.text[citation.start : citation.end] == citation.text
    assert [query.text for query in answer.trace.search_queries] == ["Feilden"]
    assert answer.trace.search_requests == 1


async def test_ambiguous_answers_from_both_corpus_first() -> None:
    world = World({POLITICIAN.text: UNSURE, PAGE.text: GOOD})
    answer = await world.answer()
    assert (answer.action, answer.evidence_quality) == (Action.AMBIGUOUS, EvidenceQuality.STRONG)
    assert cited(answer) == ["p1", "p2", "w1"]
    assert [citation.index for citation in answer.citations] == [1, 2, 3]


async def test_all_documents_of_a_question_are_scored_in_one_call() -> None:
    world = World({POLITICIAN.text: GOOD})
    await world.answer()
    documents, strips = world.evaluator.calls
    assert [passage.text for passage in documents[1]] == [POLITICIAN.text, CRICKETER.text, EMPTY.text]
    assert [passage.title for passage in documents[1]] == ["Feilden", "Cricket", "Nothing"]
    assert [passage.text for passage in strips[1]] == [POLITICIAN.text]


async def test_the_trace_holds_scores_thresholds_and_stages() -> None:
    trace = (await World({POLITICIAN.text: GOOD}).answer()).trace
    assert [(document.document_id, document.score) for document in trace.documents] == [
        ("p1", GOOD),
        ("p2", BAD),
        ("p3", None),
    ]
    assert trace.thresholds == {"upper": 0.5, "lower": -0.5}
    assert [record.stage for record in trace.stages] == [
        Stage.RETRIEVE,
        Stage.EVALUATE,
        Stage.REFINE_INTERNAL,
        Stage.GENERATE,
    ]
    assert (trace.strips_scored, trace.strips_kept, trace.evaluator_id) == (1, 1, "fake")


@pytest.mark.parametrize(
    ("outage", "reason"),
    [
        (SearchFailed("wiki says 503"), "search_failed"),
        (SearchBudgetSpent("no request left"), "search_budget_spent"),
        (SearchThrottled("wiki says 429"), "search_throttled"),
        (SearchCircuitOpen("wiki is down"), "search_circuit_open"),
        (SearchTimedOut("wiki is slow"), "search_timed_out"),
        (StageTimedOut("too slow"), "search_timed_out"),
        (StageUnavailable("no replica"), "search_unavailable"),
        (Overloaded("queue full"), "search_overloaded"),
    ],
)
async def test_failed_search_degrades_and_says_so(outage: CragError, reason: str) -> None:
    world = World(
        {POLITICIAN.text: UNSURE},
        searcher=FakeSearcher(error=outage),
        snapshot=FakeSearcher(error=outage),
    )
    answer = await world.answer()
    assert cited(answer) == ["p1", "p2"]
    assert answer.degraded == (Degradation(Stage.SEARCH, reason),) * 2
    assert answer.usage.search_calls == 2
    codes = [record.error_code for record in answer.trace.stages if record.stage is Stage.SEARCH]
    assert codes == [outage.code] * 2


async def test_the_next_searcher_answers_for_one_that_is_down() -> None:
    world = World(
        {PAGE.text: GOOD},
        searcher=FakeSearcher(error=SearchFailed("down")),
        snapshot=FakeSearcher((PAGE,)),
    )
    answer = await world.answer()
    assert cited(answer) == ["w1"]
    assert answer.degraded == (Degradation(Stage.SEARCH, "search_failed"),)


async def test_an_empty_search_is_an_answer_and_asks_nobody_else() -> None:
    world = World(searcher=FakeSearcher(()), snapshot=FakeSearcher((PAGE,)))
    answer = await world.answer()
    assert answer.text == NOT_ENOUGH_EVIDENCE
    assert world.snapshot.sought == []


async def test_a_bug_in_the_search_is_not_taken_for_an_outage() -> None:
    world = World(searcher=FakeSearcher(error=KeyError("bug")))
    with pytest.raises(KeyError):
        await world.answer()


async def test_without_evidence_it_abstains_and_calls_no_generator() -> None:
    world = World(searcher=FakeSearcher(()))
    answer = await world.answer()
    assert answer.text == NOT_ENOUGH_EVIDENCE
    assert (answer.action, answer.evidence_quality) == (Action.INCORRECT, EvidenceQuality.NONE)
    assert (answer.citations, answer.usage.llm_calls) == ((), 0)
    assert answer.degraded == (Degradation(Stage.GENERATE, "not_enough_evidence"),)
    assert world.generator.prompts == []


async def test_a_forced_answer_comes_from_memory_and_cites_nothing() -> None:
    world = World(searcher=FakeSearcher(()))
    answer = await world.answer(options=AnswerOptions(force_answer=True))
    assert answer.text == "A politician from Blackburn."
    assert (answer.evidence_quality, answer.citations) == (EvidenceQuality.NONE, ())
    assert "Documents:" not in world.generator.prompts[0].messages[-1].content


async def test_search_switched_off_is_not_an_outage() -> None:
    world = World({POLITICIAN.text: UNSURE})
    answer = await world.answer(options=AnswerOptions(search=False))
    assert world.searcher.sought == []
    assert (answer.degraded, answer.usage.search_calls) == ((), 0)
    assert cited(answer) == ["p1", "p2"]


async def test_given_documents_replace_retrieval() -> None:
    world = World({PAGE.text: GOOD})
    answer = await world.answer(documents=(PAGE,))
    assert world.retriever.queries == []
    assert (answer.action, cited(answer)) == (Action.CORRECT, ["w1"])


async def test_no_documents_at_all_are_incorrect() -> None:
    world = World({PAGE.text: GOOD})
    answer = await world.answer(documents=())
    assert world.retriever.queries == []
    assert (answer.action, cited(answer)) == (Action.INCORRECT, ["w1"])


async def test_only_empty_documents_are_incorrect() -> None:
    answer = await World({PAGE.text: GOOD}).answer(documents=(EMPTY,))
    assert answer.action is Action.INCORRECT


@pytest.mark.parametrize(
    ("minimum", "score", "is_met"),
    [
        (EvidenceQuality.STRONG, GOOD, True),
        (EvidenceQuality.STRONG, UNSURE, False),
        (EvidenceQuality.WEAK, UNSURE, True),
        (EvidenceQuality.WEAK, BAD, False),
        (EvidenceQuality.NONE, BAD, True),
    ],
)
async def test_weaker_evidence_than_accepted_is_an_error(
    minimum: EvidenceQuality, score: float, is_met: bool
) -> None:
    world = World({POLITICIAN.text: score}, searcher=FakeSearcher(()))
    options = AnswerOptions(min_quality=minimum)
    if is_met:
        assert (await world.answer(options=options)).text
    else:
        with pytest.raises(QualityBelowMinimum, match=minimum):
            await world.answer(options=options)
        assert world.generator.prompts == []


async def test_a_requests_thresholds_override_the_evaluators() -> None:
    options = AnswerOptions.model_validate({"thresholds": {"upper": 5.0, "lower": 4.0}})
    answer = await World({POLITICIAN.text: GOOD}).answer(options=options)
    assert answer.action is Action.INCORRECT
    assert answer.trace.thresholds == {"upper": 5.0, "lower": 4.0}


async def test_a_failed_evaluation_surfaces_and_is_never_incorrect() -> None:
    world = World(evaluator=FakeEvaluator(error=EvaluationFailed("out of memory")))
    with pytest.raises(EvaluationFailed):
        await world.answer()
    assert world.searcher.sought == []


async def test_a_failed_evaluation_of_one_side_cancels_the_other() -> None:
    failing = FakeEvaluator(error=EvaluationFailed("strips"), failing_from=2)
    world = World({POLITICIAN.text: UNSURE}, failing)
    with pytest.raises(EvaluationFailed, match="strips"):
        await world.answer()


async def test_a_failed_retrieval_surfaces() -> None:
    world = World(retriever=FakeRetriever(error=RetrievalFailed("index gone")))
    with pytest.raises(RetrievalFailed):
        await world.answer()


async def test_a_generator_that_fails_midway_raises_after_its_pieces() -> None:
    world = World(
        {POLITICIAN.text: GOOD},
        generator=FakeGenerator(("A pol",), error=GenerationFailed("engine died")),
    )
    seen: list[str | Answer] = []
    with pytest.raises(GenerationFailed, match="engine died"):
        async for piece in world.crag.stream(context(), Ask(QUESTION)):
            seen.append(piece)
    assert seen == ["A pol"]


async def test_a_completion_without_an_end_is_an_error_not_a_short_answer() -> None:
    world = World({POLITICIAN.text: GOOD}, generator=FakeGenerator(("A pol",), finish_reason=None))
    with pytest.raises(GenerationFailed):
        await world.answer()


async def test_white_space_around_the_answer_is_dropped_in_both_forms() -> None:
    generator = FakeGenerator((" \n", " A", " politician", " \n", "indeed", "\n"))
    answer = await World({POLITICIAN.text: GOOD}, generator=generator).answer()
    assert answer.text == "A politician \nindeed"


async def test_a_question_over_the_budget_is_refused_before_generating() -> None:
    world = World({POLITICIAN.text: GOOD})
    ask = Ask(Question("word " * 3_000))
    with pytest.raises(PromptTooLong):
        _ = [piece async for piece in world.crag.stream(context(), ask)]
    assert world.generator.prompts == []


async def test_evidence_over_the_budget_is_cut_and_said_and_not_cited() -> None:
    long = Document("p4", " ".join(["word"] * 60) + ".")
    world = World(
        {POLITICIAN.text: GOOD, long.text: UNSURE},
        retriever=FakeRetriever((long, POLITICIAN)),
        settings=CragSettings.model_validate(
            {"generation": {"prompt_token_budget": 80}, "refinement": {"correct_scope": "all"}}
        ),
    )
    answer = await world.answer()
    assert answer.degraded == (Degradation(Stage.GENERATE, "evidence_cut_to_budget"),)
    assert cited(answer) == ["p1"]


async def test_a_client_that_hangs_up_closes_the_generator() -> None:
    world = World({POLITICIAN.text: GOOD}, generator=FakeGenerator(("A",), hang=True))
    asking = asyncio.create_task(world.answer())
    await world.generator.waiting.wait()
    asking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asking
    assert world.generator.closed == 1


async def test_closing_the_stream_early_closes_the_generator() -> None:
    world = World({POLITICIAN.text: GOOD})
    stream = world.crag.stream(context(), Ask(QUESTION))
    assert await anext(stream) == "A politician"
    await stream.aclose()
    assert world.generator.closed == 1


SPECULATING = CragSettings.model_validate({"speculation": {"strips": True, "search": True}})


async def test_nothing_is_begun_ahead_unless_the_settings_say_so() -> None:
    world = World({POLITICIAN.text: UNSURE})
    answer = await world.answer()
    assert answer.action is Action.AMBIGUOUS
    assert answer.trace.speculated == {}


async def test_ambiguous_uses_both_what_was_scored_and_what_was_found_ahead() -> None:
    lazy = await World({POLITICIAN.text: UNSURE}).answer()
    world = World({POLITICIAN.text: UNSURE}, settings=SPECULATING)
    answer = await world.answer()
    assert answer.trace.speculated == {"strips": "used", "search": "used"}
    assert answer.citations == lazy.citations
    assert answer.usage.search_calls == 1
    assert answer.trace.search_queries == lazy.trace.search_queries
    assert answer.trace.searched == lazy.trace.searched
    assert answer.trace.strips_scored == lazy.trace.strips_scored
    # documents, all internal strips at once, external strips
    assert len(world.evaluator.calls) == 3


async def test_correct_drops_the_search_that_was_begun_and_is_none_the_worse_for_it() -> None:
    world = World({POLITICIAN.text: GOOD}, settings=SPECULATING)
    world.searcher.error = SearchFailed("wikipedia is down")
    answer = await world.answer()
    assert (answer.action, cited(answer)) == (Action.CORRECT, ["p1"])
    assert answer.trace.speculated["search"] == "wasted"
    assert answer.degraded == ()
    assert answer.trace.searched == ()


async def test_correct_cancels_a_search_that_still_runs() -> None:
    world = World({POLITICIAN.text: GOOD}, settings=SPECULATING)
    world.searcher.hang = True
    answer = await world.answer()
    assert (world.searcher.cancelled, answer.usage.search_calls) == (1, 1)


async def test_incorrect_uses_the_search_and_drops_the_strips() -> None:
    world = World({PAGE.text: UNSURE}, settings=SPECULATING)
    answer = await world.answer()
    assert (answer.action, cited(answer)) == (Action.INCORRECT, ["w1"])
    assert answer.trace.speculated == {"strips": "wasted", "search": "used"}


async def test_a_failed_search_begun_ahead_degrades_the_answer_that_needs_it() -> None:
    world = World({POLITICIAN.text: UNSURE}, settings=SPECULATING)
    world.searcher.error = world.snapshot.error = SearchFailed("down")
    answer = await world.answer()
    assert [rung.stage for rung in answer.degraded] == [Stage.SEARCH, Stage.SEARCH]


async def test_strips_scored_ahead_are_not_scored_again_on_correct() -> None:
    world = World({POLITICIAN.text: GOOD}, settings=SPECULATING)
    world.evaluator.delay_of_first_s = 0.05
    answer = await world.answer()
    assert answer.trace.speculated["strips"] == "used"
    assert len(world.evaluator.calls) == 2
    assert cited(answer) == ["p1"]


async def test_an_evaluation_that_fails_leaves_nothing_running_behind() -> None:
    world = World(settings=SPECULATING)
    world.evaluator.error, world.evaluator.delay_of_first_s = EvaluationFailed("broken"), 0.01
    world.searcher.hang = True
    with pytest.raises(EvaluationFailed, match="broken"):
        await world.answer()
    assert world.searcher.cancelled == 1


async def test_nothing_is_begun_ahead_while_questions_wait_for_the_evaluator() -> None:
    world = World({POLITICIAN.text: UNSURE}, settings=SPECULATING)
    world.evaluator.queue_s = 0.5
    first = await world.answer()
    second = await world.answer()
    assert first.trace.speculated == {"strips": "used", "search": "used"}
    assert second.trace.speculated == {}
    assert second.trace.evaluator_queue_s == 0.5


@pytest.mark.parametrize("mode", ["selection", "excerption", "fixed_num", "sentences"])
@pytest.mark.parametrize("score", [GOOD, UNSURE, BAD])
@pytest.mark.parametrize("comes_in_time", [False, True])
async def test_speculation_changes_no_answer(mode: str, score: float, comes_in_time: bool) -> None:
    answers = []
    for speculation in ({}, {"strips": True, "search": True}):
        settings = CragSettings.model_validate(
            {"speculation": speculation, "refinement": {"mode": mode}}
        )
        world = World({POLITICIAN.text: score, PAGE.text: UNSURE}, settings=settings)
        world.evaluator.delay_of_first_s = 0.2 if comes_in_time else 0.0
        answers.append(await world.answer())
    lazy, ahead = answers
    assert (lazy.action, lazy.citations, lazy.text) == (ahead.action, ahead.citations, ahead.text)
    assert (lazy.evidence_quality, lazy.degraded) == (ahead.evidence_quality, ahead.degraded)
    if comes_in_time and score is GOOD and mode != "selection":
        assert ahead.trace.speculated["strips"] == "used"
    assert untimed(lazy) == untimed(ahead)


def untimed(answer: Answer) -> Trace:
    """The trace, of its stages which there were, and not what was begun ahead."""
    stages = sorted(record.stage for record in answer.trace.stages)
    records = tuple(StageRecord(stage, 0.0, 0.0) for stage in stages)
    return replace(answer.trace, stages=records, speculated={})
