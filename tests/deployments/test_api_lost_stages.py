"""A stage lost half-way through an answer: whoever has seen nothing of it gets the whole of another."""

from collections.abc import AsyncGenerator
from dataclasses import dataclass, field

import pytest

from crag_core.context import RequestContext
from crag_core.errors import StageUnavailable
from crag_core.protocols import Ask
from crag_core.types import Answer, PipelineName, Question
from tests.deployments.application import Application, refusal
from tests.fakes import FakePipeline


@dataclass
class LosesStages:
    """Loses a stage the first so many times, after so many pieces; then answers as its twin does."""

    twin: FakePipeline
    losses: int
    pieces_before: int
    contexts: list[RequestContext] = field(default_factory=list)

    async def stream(self, ctx: RequestContext, ask: Ask) -> AsyncGenerator[str | Answer]:
        self.contexts.append(ctx)
        if len(self.contexts) <= self.losses:
            for _ in range(self.pieces_before):
                yield "Lo"
            raise StageUnavailable("its replica is gone")
        async for piece in self.twin.stream(ctx, ask):
            yield piece


async def answered() -> Answer:
    """An answer of the real pipeline over fakes."""
    pipeline = Application()._real_pipelines()[PipelineName.CRAG]
    ctx = RequestContext.starting_now("r", 10.0)
    pieces = [piece async for piece in pipeline.stream(ctx, Ask(Question("Who?")))]
    answer = pieces[-1]
    assert isinstance(answer, Answer)
    return answer


async def losing(losses: int, pieces_before: int) -> tuple[Application, LosesStages]:
    answer = await answered()
    pipeline = LosesStages(FakePipeline(("Po", "lit", answer)), losses, pieces_before)
    return Application(pipelines={PipelineName.CRAG: pipeline}), pipeline


@pytest.mark.parametrize("route", ["answer", "chat"])
async def test_an_answer_lost_half_way_is_begun_again_within_its_deadline(route: str) -> None:
    application, pipeline = await losing(losses=1, pieces_before=2)
    response = await (application.answer() if route == "answer" else application.chat())
    assert response.status_code == 200 and "Lo" not in response.text
    first, second = pipeline.contexts
    assert first == second, "the deadline is the request's, not the attempt's"


async def test_a_second_loss_is_told() -> None:
    application, pipeline = await losing(losses=2, pieces_before=1)
    assert refusal(await application.answer())[:2] == (503, "stage_unavailable")
    assert len(pipeline.contexts) == 2


async def test_a_loss_before_the_first_piece_was_tried_again_below() -> None:
    application, pipeline = await losing(losses=1, pieces_before=0)
    assert refusal(await application.answer())[:2] == (503, "stage_unavailable")
    assert len(pipeline.contexts) == 1


async def test_a_stream_that_its_client_has_seen_ends_with_the_error() -> None:
    application, pipeline = await losing(losses=1, pieces_before=1)
    response = await application.chat(stream=True)
    assert '"stage_unavailable"' in response.text and response.text.endswith("data: [DONE]\n\n")
    assert 'finish_reason": "stop' not in response.text
    assert len(pipeline.contexts) == 1
