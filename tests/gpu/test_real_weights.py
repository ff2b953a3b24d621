"""The production config's own weights on one card: long prompts, gibberish, and a shared card.

Needs a GPU and the models of serve_config.yaml, in their folders or in the hub's cache.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from crag_core.context import RequestContext
from crag_core.errors import SettingsError
from crag_core.generation import AnswerWriter, Evidence
from crag_core.gibberish import is_gibberish
from crag_core.settings import CragSettings
from crag_core.trace import Recorder
from crag_core.types import (
    Answer,
    Document,
    Knowledge,
    Passage,
    PipelineName,
    Question,
    ScoredStrip,
    Strip,
)
from deployments.local import app_settings, load_config

pytestmark = pytest.mark.gpu

PRODUCTION = app_settings(load_config(Path(__file__).parents[2] / "serve_config.yaml"))
NEEDLE = "The lighthouse of Skerryvore was completed by Alan Stevenson in 1844."
QUESTION = Question("In which year was the lighthouse of Skerryvore completed?")
_HAY = "The {number}th ship of the northern fleet was built in Leith and carried salt, coal and timber."


@pytest.fixture(scope="module", autouse=True)
def card() -> None:
    torch = pytest.importorskip("torch")
    if not torch.cuda.is_available():
        pytest.skip("torch finds no CUDA GPU")
    from deployments.backends.model_folder import model_folder

    try:
        model_folder(PRODUCTION.generator.model, PRODUCTION.generator.revision)
    except SettingsError as error:
        pytest.skip(str(error))


def context() -> RequestContext:
    return RequestContext.starting_now("gpu", 120.0)


@asynccontextmanager
async def engine(**changes: Any) -> AsyncIterator[Any]:
    from deployments.backends.vllm_engine import VllmEngine

    running = VllmEngine(PRODUCTION.generator.model_copy(update=changes))
    try:
        yield running
    finally:
        running.shutdown()


def evidence_of(tokens: int, count: Callable[[str], int]) -> Evidence:
    """Strips of about so many tokens in all, the one that answers amid them."""
    hay = [_HAY.format(number=number) for number in range(1, 1_000)]
    kept = (tokens - count(NEEDLE)) // count(hay[500])
    texts = [*hay[: kept // 2], NEEDLE, *hay[kept // 2 : kept]]
    documents = {f"d{number}": Document(f"d{number}", text) for number, text in enumerate(texts)}
    strips = tuple(
        ScoredStrip(Strip(text, f"d{number}", 0, len(text)), 0.9) for number, text in enumerate(texts)
    )
    return Evidence(PipelineName.CRAG, Knowledge(internal=strips), documents)


async def answered(running: Any, tokens: int, **generation: Any) -> Answer:
    """The answer from evidence that fills a prompt of about so many tokens."""
    from deployments.backends.chat_template import ChatTemplate

    template = ChatTemplate(PRODUCTION.generator.model, PRODUCTION.generator.revision)
    base = CragSettings()
    changed = {"prompt_token_budget": tokens, "max_new_tokens": 60, **generation}
    settings = base.model_copy(update={"generation": base.generation.model_copy(update=changed)})
    writer = AnswerWriter(running, template)
    found = evidence_of(tokens - 200, lambda text: len(template._tokenizer(text)["input_ids"]))
    stream = writer.write(context(), QUESTION, found, settings, Recorder())
    answer = [piece async for piece in stream][-1]
    assert isinstance(answer, Answer)
    assert answer.usage.prompt_tokens > tokens * 0.9 or answer.usage.llm_attempts == 2
    return answer


def run(body: Callable[[], Awaitable[None]]) -> None:
    async def main() -> None:
        await body()

    asyncio.run(main())


def test_prompts_on_both_sides_of_2048_tokens_are_answered_from_their_evidence() -> None:
    async def body() -> None:
        async with engine(max_model_len=4096) as running:
            for tokens in (1_900, 2_100, 3_900):
                answer = await answered(running, tokens)
                assert not is_gibberish(answer.text), (tokens, answer.text)
                assert "1844" in answer.text, (tokens, answer.text)

    run(body)


def test_an_answer_is_never_gibberish_where_it_is_watched() -> None:
    async def body() -> None:
        async with engine(max_model_len=4096) as running:
            answer = await answered(running, 3_900, watched_prompt_tokens=1_500)
            assert not is_gibberish(answer.text)
            assert (answer.usage.llm_attempts == 2) == bool(answer.degraded)

    run(body)


def test_evaluator_and_generator_share_a_card() -> None:
    async def body() -> None:
        from deployments.backends.evaluators.batched_evaluator import BatchedEvaluator

        evaluator = BatchedEvaluator(PRODUCTION.evaluator)
        passages = [Passage(NEEDLE), Passage(_HAY.format(number=1))]
        before = await evaluator.evaluate(context(), QUESTION.text, passages)
        async with engine() as running:
            both = await asyncio.gather(
                answered(running, 1_900),
                *(evaluator.evaluate(context(), QUESTION.text, passages * 200) for _ in range(20)),
            )
            assert "1844" in both[0].text
        after = await evaluator.evaluate(context(), QUESTION.text, passages)
        assert before.scores == pytest.approx(after.scores, abs=1e-5)
        await evaluator.batcher.stop()

    try:
        from deployments.backends.model_folder import model_folder

        model_folder(PRODUCTION.evaluator.model)
    except SettingsError as error:
        pytest.skip(str(error))
    run(body)
