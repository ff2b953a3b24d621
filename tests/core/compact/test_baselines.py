import pytest

from crag_core.compact.baselines import Baseline, IrCot, IterRetGen, SelfAsk, Stages
from crag_core.errors import RetrievalFailed
from crag_core.types import Document
from tests.compact_fakes import ScriptedGenerator
from tests.fakes import FakeRetriever, context

JAWS = Document("p1", "Jaws was directed by Steven Spielberg.", "Jaws")
SPIELBERG = Document("p2", "Steven Spielberg was born in Cincinnati.", "Steven Spielberg")
QUESTION = "Where was the director of Jaws born?"


def stages(*script: str | Exception) -> tuple[Stages, ScriptedGenerator, FakeRetriever]:
    generator, retriever = ScriptedGenerator(list(script)), FakeRetriever((JAWS, SPIELBERG))
    return Stages(retriever, generator), generator, retriever


async def test_self_ask_follows_up_reads_and_concludes() -> None:
    parts, generator, retriever = stages(
        "Sure, here is a line.\nFollow up: Who directed Jaws?",
        "Steven Spielberg",
        "Follow up: Where was Steven Spielberg born?",
        "Cincinnati",
        "So the final answer is: Cincinnati",
    )
    answer = await SelfAsk(parts).answer(context(), QUESTION)
    assert answer.text == "Cincinnati"
    assert retriever.queries == ["Who directed Jaws?", "Where was Steven Spielberg born?"]
    assert (answer.usage.llm_calls, answer.usage.prompt_tokens) == (5, 50)
    assert "Intermediate answer: Steven Spielberg" in generator.prompts[2].messages[-1].content


@pytest.mark.parametrize("written", ["I cannot help.", "", "Follow up: Who directed Jaws?"])
async def test_self_ask_never_asks_the_same_twice(written: str) -> None:
    parts, generator, _ = stages(*[written] * 12)
    answer = await SelfAsk(parts).answer(context(), QUESTION)
    assert answer.usage.llm_calls <= 4
    assert len({prompt.messages[-1].content for prompt in generator.prompts}) == len(generator.prompts)


async def test_ircot_asks_with_its_last_sentence_and_stops_with_the_answer() -> None:
    parts, generator, retriever = stages(
        "Jaws was directed by Steven Spielberg. He was born somewhere.",
        "Thus we need his place of birth.",
        "So the answer is: Cincinnati.",
    )
    answer = await IrCot(parts).answer(context(), QUESTION)
    assert answer.text == "Cincinnati."
    assert retriever.queries == [QUESTION, "Jaws was directed by Steven Spielberg.", QUESTION]
    assert answer.usage.llm_calls == 3
    assert generator.prompts[2].messages[-1].content.count("[1]") == 1
    assert [document.id for document in answer.documents] == ["p1", "p2"]


async def test_ircot_ends_when_it_repeats_itself() -> None:
    parts, _, _ = stages("The same.", "The same.", "The same.", "The same.")
    assert (await IrCot(parts).answer(context(), QUESTION)).usage.llm_calls == 2


@pytest.mark.parametrize(
    ("last", "text"),
    [
        ('{"thought": "t", "answer": "Cincinnati"}', "Cincinnati"),
        ('```json\n{"thought": "t", "answer": ["Cincinnati", 3]}\n```', "Cincinnati, 3"),
        ('{"thought": "t", "answer": null}', ""),
        ("The answer is: Cincinnati", "Cincinnati"),
        ("", ""),
    ],
)
async def test_iter_retgen_takes_a_fixed_number_of_completions(last: str, text: str) -> None:
    parts, _, retriever = stages('{"thought": "He is Spielberg.", "answer": "Ohio"}', last)
    answer = await IterRetGen(parts, iterations=2).answer(context(), QUESTION)
    assert answer.text == text
    assert answer.usage.llm_calls == 2
    assert retriever.queries == [QUESTION, f"{QUESTION} He is Spielberg. Ohio"]


@pytest.mark.parametrize("baseline", [IrCot, IterRetGen])
async def test_an_outage_is_raised(baseline: type[IrCot] | type[IterRetGen]) -> None:
    parts = Stages(FakeRetriever(error=RetrievalFailed("down")), ScriptedGenerator(["x"] * 9))
    chosen: Baseline = baseline(parts)
    with pytest.raises(RetrievalFailed):
        await chosen.answer(context(), QUESTION)
