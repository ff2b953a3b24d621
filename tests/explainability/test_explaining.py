import pytest

from crag_core.errors import EvaluationFailed, InvalidQuestion
from crag_core.explaining import ExplainAsk, Method, Name, Side, TokenClass, Unit
from crag_core.types import Passage
from explainability.explaining import ScoreExplainer
from tests.explainability.fakes import FakeMaskableEvaluator
from tests.fakes import context

QUESTION = "What is Henry Feilden's occupation?"
PASSAGE = Passage("Henry Master Feilden was a Conservative politician. He died in 1875.")
ASK = ExplainAsk(QUESTION, PASSAGE)


def shared_names(words: object) -> float:
    """One for each of the two names that is said twice."""
    said = " ".join(words)  # type: ignore[call-overload]
    return sum(said.count(name) == 2 for name in ("Henry", "Feilden")) + 0.1 * ("[SEP]" in said)


async def test_values_add_up_from_the_base_to_the_score() -> None:
    explanation = await ScoreExplainer(FakeMaskableEvaluator(worth=shared_names)).explain(context(), ASK)
    assert explanation.score == pytest.approx(2.1)
    assert explanation.base_value == 0.0
    assert sum(token.value for token in explanation.tokens) == pytest.approx(2.1)
    assert explanation.additivity_error < 1e-9
    assert explanation.method is Method.PARTITION and explanation.standard_error is None


async def test_tokens_are_slices_of_their_texts_in_order() -> None:
    explanation = await ScoreExplainer(FakeMaskableEvaluator()).explain(context(), ASK)
    texts = {Side.QUESTION: QUESTION, Side.PASSAGE: PASSAGE.text}
    for token in explanation.tokens:
        if token.side in texts:
            assert texts[token.side][token.start : token.end] == token.text
    assert [token.text for token in explanation.tokens][:7] == [
        "What", "is", "Henry", "Feilden's", "occupation?", "[SEP]", "Henry",
    ]  # fmt: skip


async def test_what_is_said_twice_gets_a_value_each_time() -> None:
    explanation = await ScoreExplainer(FakeMaskableEvaluator(worth=shared_names)).explain(context(), ASK)
    values = {(token.side, token.text): token.value for token in explanation.tokens}
    assert values[Side.QUESTION, "Henry"] == pytest.approx(0.5)
    assert values[Side.PASSAGE, "Henry"] == pytest.approx(0.5)
    assert values[Side.PASSAGE, "died"] == 0


async def test_classes_gather_the_tokens_by_the_names_in_the_question() -> None:
    ask = ExplainAsk("What did Ada Byron write?", Passage("Ada wrote notes."))
    explanation = await ScoreExplainer(FakeMaskableEvaluator()).explain(context(), ask)
    words = [token.text for token in explanation.tokens]
    classes = {each.name: [words[place] for place in each.tokens] for each in explanation.classes}
    assert classes == {
        TokenClass.ENTITY_IN_BOTH: ["Ada", "Ada"],
        TokenClass.ENTITY_MISSING: ["Byron"],
        TokenClass.SEPARATOR: ["[SEP]"],
        TokenClass.QUESTION_WORD: ["What"],
        TokenClass.OTHER: ["did", "write?", "wrote", "notes."],
    }
    assert sum(each.value for each in explanation.classes) == pytest.approx(9.0)


class Recogniser:
    """Knows one name."""

    def names(self, text: str) -> list[Name]:
        start = text.find("the lady of the lake")
        return [Name(start, start + 20, "WORK_OF_ART")] if start >= 0 else []


@pytest.mark.parametrize(
    ("unit", "expected"),
    [
        (Unit.WORD, 13),
        (Unit.ENTITY, 9),
        (Unit.SENTENCE, 4),
        (Unit.TOKEN, 13),
    ],
)
async def test_units_are_words_names_or_sentences(unit: Unit, expected: int) -> None:
    ask = ExplainAsk("Who wrote it?", Passage("He wrote the lady of the lake. It sold."), unit)
    explanation = await ScoreExplainer(FakeMaskableEvaluator(), Recogniser()).explain(context(), ask)
    assert len(explanation.tokens) == expected
    if unit is Unit.ENTITY:
        assert "the lady of the lake." in [token.text for token in explanation.tokens]


async def test_twelve_tokens_are_evaluated_exactly_and_thirteen_are_refused() -> None:
    explainer = ScoreExplainer(FakeMaskableEvaluator())
    few = ExplainAsk("Who?", Passage(" ".join("abcdefghij")), method=Method.EXACT)
    assert (await explainer.explain(context(), few)).evaluations == 2**12
    many = ExplainAsk("Who?", Passage(" ".join("abcdefghijk")), method=Method.EXACT)
    with pytest.raises(InvalidQuestion, match="12 tokens at most, and this pair has 13"):
        await explainer.explain(context(), many)


async def test_a_pair_that_comes_again_is_remembered() -> None:
    evaluator = FakeMaskableEvaluator()
    explainer = ScoreExplainer(evaluator)
    first = await explainer.explain(context(), ASK)
    assert await explainer.explain(context(), ASK) is first
    assert len(evaluator.asked_for) == 1


async def test_a_whole_score_that_masking_does_not_reach_is_told() -> None:
    evaluator = FakeMaskableEvaluator(whole=9.0)
    explanation = await ScoreExplainer(evaluator).explain(context(), ASK)
    assert explanation.additivity_error == pytest.approx(abs(9.0 - sum(
        token.value for token in explanation.tokens
    )))  # fmt: skip


async def test_an_empty_passage_and_a_failing_evaluator_are_errors() -> None:
    with pytest.raises(InvalidQuestion, match="nothing that the retrieval evaluator can read"):
        await ScoreExplainer(FakeMaskableEvaluator()).explain(
            context(), ExplainAsk(QUESTION, Passage(" "))
        )
    failing = FakeMaskableEvaluator(error=EvaluationFailed("no number"), failing_from=2)
    with pytest.raises(EvaluationFailed, match="no number"):
        await ScoreExplainer(failing).explain(context(), ASK)


@pytest.mark.parametrize(
    ("question", "passage"),
    [
        ("谁写了《红楼梦》？", "《红楼梦》是曹雪芹写的小说。"),
        ("من كتب الأيام؟", "كتب طه حسين كتاب الأيام."),
        ("?", "x"),
        ("Who?", "a " * 700),
        ("Who who who?", "who who who who"),
        ("Who is \ud800?", "A half \udfff of nothing."),
    ],
)
async def test_any_text_is_explained(question: str, passage: str) -> None:
    ask = ExplainAsk(question, Passage(passage))
    evaluator = FakeMaskableEvaluator(worth=lambda words: float(len(words)))
    explanation = await ScoreExplainer(evaluator).explain(context(), ask)
    assert explanation.additivity_error < 1e-6
    assert all(token.value == pytest.approx(1.0) for token in explanation.tokens)
    assert explanation.evaluations <= max(512, 4096 if len(explanation.tokens) <= 12 else 0)
