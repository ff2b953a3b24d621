import json
import threading
from collections.abc import Iterator, Sequence

import pytest

from crag_core.compact.settings import CompactSettings
from crag_core.errors import GenerationFailed, MalformedCompletion, RetrievalFailed
from crag_core.protocols import Ask
from crag_core.settings import AnswerOptions, CragSettings, SamplingOptions
from crag_core.types import Answer, Degradation, Document, EvidenceQuality, Question, Reason, Stage
from tests.compact_fakes import (
    FakeExtractor,
    FakeQARetriever,
    FakeRewriter,
    ScriptedGenerator,
    compact,
    pair,
)
from tests.fakes import FakeRetriever, context

QUESTION = Question("Where was the director of Jaws born?")
DIRECTOR = pair("Who directed Jaws?", "Steven Spielberg", "jaws", "Jaws")
BIRTH = pair("Where was Steven Spielberg born?", "Cincinnati", "spielberg", "Steven Spielberg")
PLAN = [
    {"index": 0, "q": "Who directed Jaws?", "ref": []},
    {"index": 1, "q": "Where was #0 born?", "ref": [0]},
]
BASE = {"Who directed Jaws?": [DIRECTOR], "Where was Steven Spielberg born?": [BIRTH]}


def script(plan: object = PLAN, *rest: str | Exception) -> ScriptedGenerator:
    return ScriptedGenerator([json.dumps(plan), *(rest or ("Cincinnati [2]",))])


async def answered(pipeline: object, ask: Ask | None = None) -> Answer:
    pieces = [piece async for piece in pipeline.stream(context(), ask or Ask(QUESTION))]  # type: ignore[attr-defined]
    answer = pieces[-1]
    assert isinstance(answer, Answer)
    assert "".join(pieces[:-1]) == answer.text
    return answer


async def test_two_hops_are_chained_and_cited_and_traced() -> None:
    generator, retriever = script(), FakeQARetriever(BASE)
    answer = await answered(compact(generator, retriever))
    assert answer.text == "Cincinnati [2]"
    assert retriever.calls == [("Who directed Jaws?",), ("Where was Steven Spielberg born?",)]
    assert [citation.document_id for citation in answer.citations] == [DIRECTOR.id, BIRTH.id]
    assert [citation.title for citation in answer.citations] == ["Jaws", "Steven Spielberg"]
    first, second = answer.trace.hops
    assert (first.level, second.level, second.references) == (0, 1, (0,))
    assert (second.asked, second.answer) == ("Where was Steven Spielberg born?", "Cincinnati")
    assert [found.document_id for found in second.found] == [BIRTH.id]
    assert answer.degraded == ()
    assert answer.evidence_quality is EvidenceQuality.WEAK
    prompt = generator.prompts[1].messages[-1].content
    assert "[2] Steven Spielberg: Where was Steven Spielberg born? Cincinnati" in prompt
    assert generator.samplings[0].json_schema and generator.samplings[1].json_schema is None


@pytest.mark.parametrize("hops", range(1, 8))
@pytest.mark.parametrize("chained", [True, False])
async def test_an_answer_takes_two_completions_for_any_number_of_hops(hops: int, chained: bool) -> None:
    plan = [
        {"index": n, "q": f"Who knew number {n}?", "ref": [n - 1] if n and chained else []}
        for n in range(hops)
    ]
    retriever = FakeQARetriever(otherwise=[DIRECTOR])
    answer = await answered(compact(script(plan), retriever))
    assert (answer.usage.llm_calls, answer.usage.llm_attempts) == (2, 2)
    assert (answer.usage.prompt_tokens, answer.usage.completion_tokens) == (20, 10)
    assert len(answer.trace.hops) == hops
    assert len(retriever.calls) == (hops if chained else 1)


@pytest.mark.parametrize("plan", ["I would rather not.", "", "[{]", "\u0000"])
async def test_a_malformed_plan_asks_the_question_itself_and_says_so(plan: str) -> None:
    retriever = FakeQARetriever(otherwise=[BIRTH])
    answer = await answered(compact(ScriptedGenerator([plan, "Ohio"]), retriever))
    assert retriever.calls == [(QUESTION.text,)]
    assert answer.degraded == (Degradation(Stage.DECOMPOSE, Reason.PLAN_MALFORMED),)
    assert answer.usage.llm_calls == 2
    assert answer.citations


async def test_an_empty_base_is_answered_in_two_calls_and_says_that_evidence_is_missing() -> None:
    answer = await answered(compact(script(), FakeQARetriever()))
    assert answer.usage.llm_calls == 2
    assert answer.evidence_quality is EvidenceQuality.NONE
    assert {rung.reason for rung in answer.degraded} == {
        Reason.HOP_UNRESOLVED,
        Reason.NOT_ENOUGH_EVIDENCE,
    }


async def test_what_hangs_on_an_unresolved_hop_is_asked_by_its_description() -> None:
    retriever = FakeQARetriever({"Who directed Jaws?": [DIRECTOR]})
    plan = [{"q": "Who directed Jaws?"}, {"q": "Where was he born?", "ref": "0"}]
    rewriter = FakeRewriter({"Where was he born?": "Where was  born?"})
    extractor = FakeExtractor({"Who directed Jaws?": None})
    answer = await answered(compact(script(plan), retriever, rewriter=rewriter, extractor=extractor))
    assert retriever.calls[1] == ("Where was directed Jaws born?",)
    assert rewriter.asked == []
    assert Degradation(Stage.EXTRACT, Reason.HOP_UNRESOLVED) in answer.degraded


@pytest.mark.parametrize(
    ("written", "asked"),
    [
        ("In which city was Steven Spielberg born?", "In which city was Steven Spielberg born?"),
        ("In which city was Steve Spielberg born?", "Where was Steven Spielberg born?"),
        (None, "Where was Steven Spielberg born?"),
    ],
)
async def test_a_rewriting_is_checked_and_else_the_rule_stands(written: str | None, asked: str) -> None:
    plan = [{"q": "Who directed Jaws?"}, {"q": "Where was this director born?"}]
    texts = {"Where was this director born?": written} if written else {}
    retriever = FakeQARetriever({"Who directed Jaws?": [DIRECTOR]})
    await answered(compact(script(plan), retriever, rewriter=FakeRewriter(texts)))
    assert retriever.calls[1] == (asked,)


async def test_the_extractor_reads_the_grounded_question() -> None:
    extractor = FakeExtractor()
    await answered(compact(script(), FakeQARetriever(BASE), extractor=extractor))
    assert [reading.question for (reading,) in extractor.calls] == list(BASE)


async def test_tokens_of_a_model_are_no_answer() -> None:
    extractor = FakeExtractor({"Who directed Jaws?": "s</s>"})
    answer = await answered(compact(script(), FakeQARetriever(BASE), extractor=extractor))
    assert answer.trace.hops[0].answer is None


async def test_comparisons_are_not_looked_up() -> None:
    plan: Sequence[object] = [
        {"index": 0, "q": "When was Jaws released?", "ref": []},
        {"index": 1, "q": "When was Alien released?", "ref": []},
        {"index": 2, "q": "Which is earlier, #0 or #1?", "ref": [0, 1]},
    ]
    retriever = FakeQARetriever(otherwise=[pair("When?", "1975")])
    answer = await answered(compact(script(plan), retriever))
    assert retriever.calls == [("When was Jaws released?", "When was Alien released?")]
    assert answer.trace.hops[2].level is None
    assert answer.trace.hops[2].asked == "Which is earlier, 1975 or 1975?"


async def test_passages_are_read_where_no_pair_is_close_enough() -> None:
    passages = FakeRetriever([Document("p9", "Jaws was directed by Steven Spielberg.", "Jaws")])
    retriever = FakeQARetriever(otherwise=[pair("Who sang?", "Nobody")], score=0.1)
    answer = await answered(compact(script([{"q": "Who directed Jaws?"}]), retriever, passages=passages))
    assert [citation.document_id for citation in answer.citations] == ["p9"]
    assert answer.citations[0].text == "Jaws was directed by Steven Spielberg."
    assert Degradation(Stage.RETRIEVE_PAIRS, Reason.PASSAGES_INSTEAD) in answer.degraded


async def test_the_callers_documents_replace_the_base() -> None:
    text = "Kale is green. Jaws was directed by Steven Spielberg. He died."
    retriever = FakeQARetriever(BASE)
    ask = Ask(QUESTION, documents=(Document("document-0", text),))
    answer = await answered(compact(script(), retriever), ask)
    assert retriever.calls == []
    citation = answer.citations[0]
    assert citation.document_id == "document-0"
    assert (
        text[citation.start : citation.end] == citation.text == "Jaws was directed by Steven Spielberg."
    )


class NotesWhoReads(tuple[Document, ...]):
    """Documents that remember which threads went through them."""

    readers: set[threading.Thread]

    def __iter__(self) -> Iterator[Document]:
        self.readers.add(threading.current_thread())
        return super().__iter__()


async def test_the_callers_documents_are_not_read_on_the_event_loop() -> None:
    documents = NotesWhoReads([Document("document-0", "Jaws was directed by Steven Spielberg.")])
    documents.readers = set()
    answer = await answered(compact(script(), FakeQARetriever()), Ask(QUESTION, documents=documents))
    assert answer.citations
    assert documents.readers and threading.current_thread() not in documents.readers


async def test_of_long_documents_the_first_strips_are_read_and_the_answer_says_so() -> None:
    left_out = Degradation(Stage.RETRIEVE_PAIRS, Reason.STRIPS_LEFT_OUT)
    limit = CragSettings().refinement.max_strips_scored
    for before, is_cut in ((limit - 1, False), (limit, True)):
        text = "Kale is green.\n" * before + "Jaws was directed by Steven Spielberg."
        ask = Ask(QUESTION, documents=(Document("document-0", text),))
        answer = await answered(compact(script(), FakeQARetriever()), ask)
        assert answer.degraded.count(left_out) == is_cut
        assert bool(answer.citations) is not is_cut


async def test_a_failed_decomposition_is_tried_once_more_and_counted() -> None:
    failure = GenerationFailed("engine")
    generator = ScriptedGenerator([failure, json.dumps(PLAN), "Cincinnati"])
    answer = await answered(compact(generator, FakeQARetriever(BASE)))
    assert (answer.usage.llm_calls, answer.usage.llm_attempts) == (2, 3)
    with pytest.raises(GenerationFailed):
        await answered(compact(ScriptedGenerator([failure, failure]), FakeQARetriever(BASE)))


async def test_an_outage_of_the_base_is_no_missing_evidence() -> None:
    retriever = FakeQARetriever(error=RetrievalFailed("the base could not be searched"))
    with pytest.raises(RetrievalFailed):
        await answered(compact(script(), retriever))


async def test_a_pair_found_by_two_hops_stands_in_the_prompt_once() -> None:
    generator = script()
    answer = await answered(compact(generator, FakeQARetriever(otherwise=[DIRECTOR, BIRTH])))
    assert [citation.document_id for citation in answer.citations] == [DIRECTOR.id, BIRTH.id]
    assert generator.prompts[1].messages[-1].content.count("Cincinnati") == 1


async def test_force_answer_leaves_no_way_out() -> None:
    for force, told in ((True, False), (False, True)):
        generator = script()
        ask = Ask(QUESTION, options=AnswerOptions(force_answer=force))
        await answered(compact(generator, FakeQARetriever(BASE)), ask)
        assert ("not enough evidence" in generator.prompts[1].messages[0].content) is told


async def test_long_plans_are_cut_and_say_so() -> None:
    plan = [{"q": f"Who knew number {n}?"} for n in range(30)]
    answer = await answered(compact(script(plan), FakeQARetriever(otherwise=[DIRECTOR])))
    assert Degradation(Stage.DECOMPOSE, Reason.PLAN_CUT) in answer.degraded
    assert len(answer.trace.hops) == CompactSettings().limits.max_sub_questions


@pytest.mark.parametrize("blank", ["", " \n\t"])
async def test_a_synthesis_that_says_nothing_is_asked_for_once_more(blank: str) -> None:
    generator = script(PLAN, blank, " Cincinnati")
    answer = await answered(compact(generator, FakeQARetriever(BASE)))
    assert answer.text == "Cincinnati"
    assert (answer.usage.llm_calls, answer.usage.llm_attempts) == (2, 3)
    _, first, second = generator.samplings
    assert first.temperature == 0.0 < second.temperature, "greedily it would say nothing again"
    assert generator.prompts[1] == generator.prompts[2]


async def test_a_synthesis_that_says_nothing_twice_is_an_error() -> None:
    generator = script(PLAN, "", " ", "never asked for")
    with pytest.raises(MalformedCompletion, match="empty answer"):
        await answered(compact(generator, FakeQARetriever(BASE)))
    assert len(generator.prompts) == 3


async def test_a_synthesis_that_the_callers_stop_text_ends_at_once_is_no_error() -> None:
    ask = Ask(QUESTION, sampling=SamplingOptions(stop=("Cincinnati",)))
    answer = await answered(compact(script(PLAN, ""), FakeQARetriever(BASE)), ask)
    assert (answer.text, answer.usage.llm_attempts) == ("", 2)


@pytest.mark.parametrize(("limit", "kept"), [(None, 20), (1, 2), (2, 2), (6, 6), (7, 6), (30, 24)])
async def test_a_request_says_how_many_pairs_its_question_gets(limit: int | None, kept: int) -> None:
    """Two hops share them; each has twelve to be had."""
    hops = [[pair(f"{hop} {n}?", f"{hop}{n}", f"{hop}{n}", str(n)) for n in range(12)] for hop in "xy"]
    retriever = FakeQARetriever(dict(zip(["Who is x?", "Who is y?"], hops, strict=True)))
    plan = [{"q": "Who is x?"}, {"q": "Who is y?"}]
    ask = Ask(QUESTION, options=AnswerOptions(retrieve_limit=limit))
    answer = await answered(compact(script(plan), retriever), ask)
    assert sum(len(hop.found) for hop in answer.trace.hops) == kept


async def test_a_request_gets_no_more_passages_than_pairs() -> None:
    passages = FakeRetriever([Document(f"p{n}", f"Passage {n}.") for n in range(5)])
    retriever = FakeQARetriever(otherwise=[DIRECTOR], score=0.1)
    for limit, read in ((None, 2), (1, 1)):
        ask = Ask(QUESTION, options=AnswerOptions(retrieve_limit=limit))
        pipeline = compact(script([{"q": "Who directed Jaws?"}]), retriever, passages=passages)
        assert len((await answered(pipeline, ask)).citations) == read
