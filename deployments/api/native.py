"""`POST /v1/answer`: a question with everything this project can be told about it."""

from typing import Annotated

from fastapi import APIRouter, Header, Request

from crag_core import errors
from deployments.api import routes
from deployments.api.answering import Answering, Conversation, ask_of, finished
from deployments.api.errors import documented
from deployments.api.observing import observation_of
from deployments.api.schemas.answer import AnswerHeaders, AnswerRequest, AnswerResponse

ANSWER_ERRORS = (
    errors.InvalidQuestion,
    errors.InvalidTimeout,
    errors.PromptTooLong,
    errors.PipelineNotConfigured,
    errors.QualityBelowMinimum,
    errors.Overloaded,
    errors.NotReady,
    errors.StageUnavailable,
    errors.StageTimedOut,
    errors.RetrievalFailed,
    errors.EvaluationFailed,
    errors.GenerationFailed,
    errors.MalformedCompletion,
)
"""What either answer route may raise."""


def native_routes(answering: Answering) -> APIRouter:
    """The route."""
    router = APIRouter(tags=["answers"])

    @router.post(routes.ANSWER, summary="Answer a question", responses=documented(*ANSWER_ERRORS))
    async def answer(
        request: Request, body: AnswerRequest, headers: Annotated[AnswerHeaders, Header()]
    ) -> AnswerResponse:
        """Retrieve, evaluate, correct and generate; the answer comes with its evidence.

        Fields left out, or null, keep the application's settings; unknown fields are refused.
        """
        ask = ask_of(Conversation(body.question), body, body.options, answering.settings)
        pipeline = body.pipeline or answering.settings.default_pipeline
        answer = await finished(answering.stream(request, headers, body, ask, pipeline))
        return AnswerResponse.of(
            answer, observation_of(request).answer_id, trace=body.trace, answer=answer.text
        )

    return router
