"""A recorded decision is made again from its record alone, and what differs is named."""

import asyncio
import json
from dataclasses import replace
from pathlib import Path

import pytest
from typer.testing import CliRunner

from crag_core.baselines import NoRetrieval, Rag
from crag_core.context import RequestContext
from crag_core.crag import Crag
from crag_core.errors import AnswerNotFound, GenerationFailed, SearchThrottled, SettingsError
from crag_core.generation import AnswerWriter
from crag_core.protocols import Ask, Pipeline
from crag_core.settings import CragSettings, SpeculationSettings
from crag_core.types import Action, Answer, Document, Passage, PipelineName, Question
from deployments.cli import app
from deployments.records.kept import KeptAnswers, RecordKeeper
from deployments.records.record import DecisionRecord, Models
from deployments.records.recorded import Recorded
from deployments.records.replay import differences
from deployments.records.store import RecordStore
from deployments.settings import RecordSettings
from tests.compact_fakes import FakeQARetriever, FakeRewriter, ScriptedGenerator, compact, pair
from tests.deployments.application import Application
from tests.fakes import FakeEvaluator, FakeGenerator, FakeRetriever, FakeSearcher, FakeTokenCounter

RIGHT = Document("d1", "Feilden was a politician in Blackburn. He liked kale.", "Feilden")
WRONG = Document("d2", "Kale is a cabbage, and it is green.", "Kale")
ASK = Ask(Question("Who was Feilden?"))
MODELS = Models("model", None, None)


def crag(best: float, **changes: object) -> Crag:
    evaluator = FakeEvaluator({RIGHT.text: best}, default=-0.7)
    crag = Crag(
        FakeRetriever((RIGHT, WRONG)),
        evaluator,
        [FakeSearcher()],
        AnswerWriter(FakeGenerator(), FakeTokenCounter()),
        CragSettings(),
    )
    return replace(crag, **changes)  # type: ignore[arg-type]


async def recorded(pipeline: Pipeline, ask: Ask = ASK) -> DecisionRecord:
    settings: CragSettings = pipeline.settings  # type: ignore[attr-defined]
    return await record_of(Recorded(pipeline, settings, MODELS), ask)


async def recorded_compact(*stumbles: Exception) -> DecisionRecord:
    """Of two hops, the second of which points back at the first."""
    plan = '[{"q": "Who directed Jaws?"}, {"q": "Where was he born?", "refs": [1]}]'
    pipeline = compact(
        ScriptedGenerator([*stumbles, plan, "Ohio"]),
        FakeQARetriever(
            {"Who directed Jaws?": [pair("Who directed Jaws?", "Steven Spielberg")]},
            otherwise=[pair("Where was Spielberg born?", "Ohio")],
        ),
        rewriter=FakeRewriter({"Where was he born?": "Where was Steven Spielberg born?"}),
    )
    recording = Recorded(pipeline, pipeline.crag, MODELS, pipeline.settings)
    return await record_of(recording, Ask(Question("Where was the director of Jaws born?")))


async def record_of(recording: Recorded, ask: Ask) -> DecisionRecord:
    ctx = RequestContext.starting_now("r", 10)
    *_, answer = [piece async for piece in recording.stream(ctx, ask)]
    assert isinstance(answer, Answer) and answer.record is not None
    return DecisionRecord.from_json(answer.record)


@pytest.mark.parametrize(
    ("best", "action"), [(9.0, Action.CORRECT), (0.0, Action.AMBIGUOUS), (-9.0, Action.INCORRECT)]
)
async def test_every_action_is_decided_again(best: float, action: Action) -> None:
    record = await recorded(crag(best))
    assert record.answer.action is action
    assert await differences(record) == []


@pytest.mark.parametrize(
    "pipeline",
    [
        Rag(FakeRetriever((RIGHT,)), AnswerWriter(FakeGenerator(), FakeTokenCounter()), CragSettings()),
        NoRetrieval(AnswerWriter(FakeGenerator(), FakeTokenCounter()), CragSettings()),
    ],
    ids=["rag", "no_retrieval"],
)
async def test_the_baselines_are_decided_again(pipeline: Pipeline) -> None:
    assert await differences(await recorded(pipeline)) == []


async def test_the_hops_of_compact_are_resolved_again() -> None:
    record = await recorded_compact()
    assert [hop.answer for hop in record.answer.trace.hops] == ["Steven Spielberg", "Ohio"]
    assert [len(calls) for calls in (record.calls.pairs, record.calls.extracted)] == [2, 2]
    assert record.calls.rewritten[0].texts == ("Where was Steven Spielberg born?",)
    assert record.calls.completed[0] != record.calls.completed[1]
    assert await differences(record) == []


async def test_a_plan_that_came_at_the_second_attempt_is_read_again() -> None:
    record = await recorded_compact(GenerationFailed("the engine stumbled"))
    assert [failed.call for failed in record.calls.failed] == ["generate"]
    assert await differences(record) == []


async def test_another_answer_to_a_hop_is_named() -> None:
    record = await recorded_compact()
    trace = replace(record.answer.trace, hops=record.answer.trace.hops[:1])
    changed = replace(record, answer=replace(record.answer, trace=trace))
    assert [it.what for it in await differences(changed)] == ["hops"]


async def test_a_record_of_compact_without_its_settings_cannot_be_replayed(tmp_path: Path) -> None:
    record = tmp_path / "record.json"
    record.write_bytes(replace(await recorded_compact(), compact=None).to_json())
    result = await asyncio.to_thread(CliRunner().invoke, app, ["replay", str(record)])
    assert result.exit_code == 2
    assert "lacks `compact`, its settings" in " ".join(result.output.split())


async def test_what_was_begun_ahead_decides_nothing() -> None:
    ahead = CragSettings(speculation=SpeculationSettings(strips=True, search=True))
    assert await differences(await recorded(crag(9.0, settings=ahead))) == []


async def test_an_outage_is_met_again() -> None:
    failing = crag(-9.0, searchers=[FakeSearcher(error=SearchThrottled("slow down"))])
    record = await recorded(failing)
    assert record.answer.degraded[0].reason == "search_throttled"
    assert await differences(record) == []


async def test_the_callers_own_documents_are_read_again() -> None:
    record = await recorded(crag(9.0), Ask(ASK.question, documents=(RIGHT,)))
    assert await differences(record) == []


async def test_another_decision_is_named_with_then_and_now() -> None:
    record = await recorded(crag(9.0))
    thresholds = record.calls.evaluated[0].evaluation.thresholds
    stricter = record.settings.model_copy(
        update={"thresholds": thresholds.model_copy(update={"upper": 99.0})}
    )
    found = {it.what: (it.then, it.now) for it in await differences(replace(record, settings=stricter))}
    assert found["action"] == ("correct", "ambiguous")
    assert found["thresholds"][1]["upper"] == 99.0


async def test_evidence_that_is_not_in_the_record_is_named() -> None:
    record = await recorded(crag(9.0))
    _, *strips = record.calls.evaluated
    assert strips, "strips are scored in a call of their own"
    calls = replace(record.calls, evaluated=tuple(strips))
    (difference,) = await differences(replace(record, calls=calls))
    assert "was not asked then" in str(difference.now)


async def test_the_command_tells_same_from_different(tmp_path: Path) -> None:
    record = await recorded(crag(9.0))
    same, changed = tmp_path / "same.json", tmp_path / "changed.json"
    same.write_bytes(record.to_json())
    changed.write_bytes(replace(record, answer=replace(record.answer, text="another")).to_json())
    results = {
        file: await asyncio.to_thread(CliRunner().invoke, app, ["replay", str(file), "--json"])
        for file in (same, changed, tmp_path / "none.json")
    }
    assert [result.exit_code for result in results.values()] == [0, 1, 2]
    assert json.loads(results[same].stdout) == {"same": True, "differences": []}
    assert [it["what"] for it in json.loads(results[changed].stdout)["differences"]] == ["answer"]


async def test_a_record_is_found_by_its_answers_id_and_explains_itself() -> None:
    store = RecordStore(RecordSettings(max_answers=9))
    keeper, kept = RecordKeeper(store), KeptAnswers(store)
    application = Application(observer=keeper, recorded=kept)  # type: ignore[arg-type]
    pipeline = crag(9.0)
    application.pipelines = {PipelineName.CRAG: Recorded(pipeline, pipeline.settings, MODELS)}
    answer = (await application.answer(question=ASK.question.text)).json()
    await asyncio.sleep(0)  # it is kept in a task of its own
    async with application.client() as client:
        found = await client.get(f"/v1/answers/{answer['id']}")
        missing = await client.get("/v1/answers/unheard-of")
    assert found.status_code == 200
    assert await differences(DecisionRecord.from_json(found.content)) == []
    assert (missing.status_code, missing.json()["error"]["code"]) == (404, "answer_not_found")
    assert await kept.pair(answer["id"], "d1") == (
        ASK.question.text,
        Passage(RIGHT.text, RIGHT.title),
    )
    with pytest.raises(AnswerNotFound):
        await kept.pair(answer["id"], "d9")


async def test_a_document_is_found_as_it_was_scored_also_where_strips_were_scored_before_it() -> None:
    long = Document("d3", " ".join(f"Feilden sat for Blackburn {n} times." for n in range(9)), "Seats")
    pipeline = crag(
        9.0,
        retriever=FakeRetriever((long, RIGHT, WRONG)),
        evaluator=FakeEvaluator({RIGHT.text: 9.0}, delay_of_first_s=0.5),
        settings=CragSettings(speculation=SpeculationSettings(strips=True)),
    )
    record = await recorded(pipeline)
    assert len(record.calls.evaluated[0].passages) > 3, "strips came first"
    store = RecordStore(RecordSettings(max_answers=1))
    await store.keep("it", record.to_json())
    for document in (long, RIGHT, WRONG):
        _, passage = await KeptAnswers(store).pair("it", document.id)
        assert passage == Passage(document.text, document.title)


async def test_a_record_of_another_release_cannot_be_explained() -> None:
    store = RecordStore(RecordSettings(max_answers=1))
    await store.keep("old", b'{"format": 0}')
    with pytest.raises(AnswerNotFound, match="another release"):
        await KeptAnswers(store).pair("old", "d1")


@pytest.mark.parametrize("content", [b"", b"{}", b"[1]", b'{"format": 1}'])
def test_what_is_no_record_is_refused(content: bytes) -> None:
    with pytest.raises(SettingsError, match="no decision record"):
        DecisionRecord.from_json(content)


async def test_a_record_of_another_format_is_refused_whether_or_not_it_can_be_read() -> None:
    ours = json.loads((await recorded(crag(9.0))).to_json())
    for content in (ours, {}):
        other = json.dumps({**content, "format": 2}).encode()
        with pytest.raises(SettingsError, match="has format 2, and this release reads 1: use"):
            DecisionRecord.from_json(other)


async def test_a_store_keeps_the_last_within_its_bounds() -> None:
    store = RecordStore(RecordSettings(max_answers=3, max_bytes=1_000))
    for number in range(5):
        await store.keep(str(number), b"x" * 300)
    assert [bool(await store.find(str(number))) for number in range(5)] == [
        False,
        False,
        True,
        True,
        True,
    ]
    await store.keep("large", b"x" * 900)
    assert await store.find("large") and not await store.find("4")
    await store.keep("too large", b"x" * 1_001)
    assert await store.find("too large") is None
    await store.adopt(RecordSettings(max_answers=0))
    assert await store.find("large") is None
