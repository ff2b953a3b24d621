"""Gibberish is told from language by its first words, and gets one more try on less evidence."""

from collections.abc import AsyncGenerator, Sequence
from dataclasses import dataclass, field

import pytest

from crag_core.context import RequestContext
from crag_core.crag import Crag
from crag_core.errors import GenerationFailed
from crag_core.generation import AnswerWriter
from crag_core.gibberish import is_gibberish
from crag_core.protocols import Ask
from crag_core.settings import CragSettings
from crag_core.types import Answer, Completion, Document, Prompt, Question, Reason, Sampling, TokenUsage
from tests.fakes import FakeEvaluator, FakeRetriever, FakeTokenCounter, context

NONSENSE = "of of of of of of of of of of of of of of of of of of of of"
SENSE = "Henry Feilden was a Conservative politician who sat for Blackburn from 1869 until he died."


@pytest.mark.parametrize(
    "text",
    [
        NONSENSE,
        "assistant assistant assistant assistant assistant assistant assistant",
        "................................................",
        "\n".join(["| |"] * 20),
        "}{}{ ## @@ ~~ || <<>> ``` ^^ == __ $$ {{ }} ##",
        "thequickbrownfoxjumpsoverthelazydogthequickbrownfoxjumpsoverthelazydog",
        "a b " * 20,
    ],
)
def test_what_no_model_means_is_gibberish(text: str) -> None:
    assert is_gibberish(text)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "Yes.",
        "1869",
        SENSE,
        "No, no, no.",
        "It is 3.14159 (see [1]); the ratio 22/7 is close: 3.142857...",
        "亨利·菲尔登是一名保守党政治家，自1869年起担任布莱克本选区的议员。",
        "Генри Филден был консервативным политиком и заседал с 1869 года.",
        "New York, New York is a song; Duran Duran is a band; Walla Walla is a town.",
        "- politician\n- landowner\n- member of parliament for Blackburn",
    ],
)
def test_what_a_model_may_mean_is_none(text: str) -> None:
    assert not is_gibberish(text)


@dataclass
class Rambles:
    """Writes nonsense on prompts of more than so many words, sense on others."""

    can_read_words: int
    prompts: list[Prompt] = field(default_factory=list)
    closed: int = 0

    async def generate(
        self, ctx: RequestContext, prompt: Prompt, sampling: Sampling
    ) -> AsyncGenerator[Completion]:
        self.prompts.append(prompt)
        words = FakeTokenCounter().count(prompt)
        try:
            for word in (SENSE if words <= self.can_read_words else NONSENSE).split():
                yield Completion(f"{word} ")
            yield Completion("", "stop", TokenUsage(words, 20))
        finally:
            self.closed += 1


DOCUMENTS = tuple(
    Document(f"d{number}", f"Document {number} tells of Henry Feilden and of his seat in Blackburn.")
    for number in range(12)
)


async def asked(
    generator: Rambles, watched: int | None, question: str = "Who was Henry Feilden?"
) -> Sequence[str | Answer]:
    base = CragSettings()
    settings = base.model_copy(
        update={
            "generation": base.generation.model_copy(update={"watched_prompt_tokens": watched}),
            "refinement": base.refinement.model_copy(update={"max_strips": 12, "max_documents": 12}),
        }
    )
    evaluator = FakeEvaluator(default=0.9)
    writer = AnswerWriter(generator, FakeTokenCounter())
    crag = Crag(FakeRetriever(DOCUMENTS), evaluator, (), writer, settings)
    ask = Ask(Question(question), documents=DOCUMENTS)
    return [piece async for piece in crag.stream(context(), ask)]


async def test_gibberish_is_never_shown_and_half_the_prompt_is_tried() -> None:
    generator = Rambles(can_read_words=120)
    *pieces, answer = await asked(generator, watched=100)
    assert isinstance(answer, Answer)
    assert answer.text == SENSE == "".join(map(str, pieces)).strip()
    assert [rung.reason for rung in answer.degraded] == [Reason.GIBBERISH]
    assert (answer.usage.llm_calls, answer.usage.llm_attempts) == (1, 2)
    long, short = (FakeTokenCounter().count(prompt) for prompt in generator.prompts)
    assert short <= long / 2 and generator.closed == 2
    assert 0 < len(answer.citations) < 12, "cited is what the second prompt held"


async def test_gibberish_again_is_an_error_and_not_an_answer() -> None:
    with pytest.raises(GenerationFailed, match="also on half the evidence"):
        await asked(Rambles(can_read_words=0), watched=100)


async def test_a_question_too_long_to_be_halved_is_not_blamed_for_the_gibberish() -> None:
    question = f"Who was {'the very honourable ' * 100}Henry Feilden?"
    with pytest.raises(GenerationFailed, match="over half of its prompt"):
        await asked(Rambles(can_read_words=0), watched=100, question=question)


@pytest.mark.parametrize("watched", [None, 1_000])
async def test_short_prompts_are_not_watched(watched: int | None) -> None:
    *_, answer = await asked(Rambles(can_read_words=0), watched=watched)
    assert isinstance(answer, Answer) and answer.text == NONSENSE
