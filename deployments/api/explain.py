"""`POST /v1/explain`: a score of the retrieval evaluator, token by token."""

from typing import Annotated, Protocol

from fastapi import APIRouter, Header, Request

from crag_core import errors
from crag_core.context import Lane, RequestContext
from crag_core.explaining import ExplainAsk, Explainer, Explanation
from crag_core.types import Passage
from deployments.admission.admission import Admission
from deployments.admission.demand import BESIDE
from deployments.api import routes
from deployments.api.answering import before_deadline, request_context
from deployments.api.errors import documented, refused
from deployments.api.schemas.answer import AnswerHeaders
from deployments.api.schemas.explain import ExplainRequest, ExplainResponse
from deployments.api.sizes import check_characters, check_question
from deployments.settings import ApiSettings

_EXPLAIN_ERRORS = (
    errors.InvalidQuestion,
    errors.InvalidTimeout,
    errors.ExplanationsNotConfigured,
    errors.AnswerNotFound,
    errors.Overloaded,
    errors.StageUnavailable,
    errors.StageTimedOut,
    errors.EvaluationFailed,
)


class RecordedAnswers(Protocol):
    """Answers of the past, and what was scored for them; raises AnswerNotFound."""

    async def record(self, answer_id: str) -> bytes: ...

    async def pair(self, answer_id: str, document_id: str) -> tuple[str, Passage]: ...


class NothingRecorded:
    """The `RecordedAnswers` of an application that keeps no answers."""

    async def record(self, answer_id: str) -> bytes:
        """Raises AnswerNotFound."""
        raise errors.AnswerNotFound(
            f"answer {answer_id} is not recorded here: set `observability.records.max_answers`"
        )

    async def pair(self, answer_id: str, document_id: str) -> tuple[str, Passage]:
        """Raises AnswerNotFound."""
        raise errors.AnswerNotFound(
            f"answer {answer_id} is not recorded here: send its question and passage instead"
        )


class NothingExplained:
    """The `Explainer` of an application that has none."""

    async def explain(self, ctx: RequestContext, ask: ExplainAsk) -> Explanation:
        """Raises ExplanationsNotConfigured."""
        raise errors.ExplanationsNotConfigured(
            "this application explains no scores: set `explain` in its configuration"
        )


def explain_routes(
    explainer: Explainer, recorded: RecordedAnswers, settings: ApiSettings, admission: Admission
) -> APIRouter:
    """The route."""
    router = APIRouter(tags=["explanations"])

    @router.post(
        routes.EXPLAIN, summary="Explain a relevance score", responses=documented(*_EXPLAIN_ERRORS)
    )
    async def explain(
        request: Request, body: ExplainRequest, headers: Annotated[AnswerHeaders, Header()]
    ) -> ExplainResponse:
        """Say what each token of question and passage adds to the evaluator's score.

        It waits behind all answers. Values and `base_value`, the score with everything masked, add up
        to `score`.
        """
        ctx = request_context(request, headers, settings, body.timeout_s, Lane.EXPLAIN)
        with admission.gate.admitted(ctx, BESIDE):
            async with before_deadline(ctx):
                question, passage = await _pair(body)
                explanation = await explainer.explain(ctx, _ask(body, question, passage))
        return ExplainResponse.model_validate(explanation)

    async def _pair(body: ExplainRequest) -> tuple[str, Passage]:
        if body.answer_id is not None and body.document_id is not None:
            return await recorded.pair(body.answer_id, body.document_id)
        assert body.question is not None and body.passage is not None
        check_question(body.question, settings, field="question")
        if not body.passage.text.strip():
            raise refused("passage", "must not be empty")
        check_characters([body.passage.text], settings.max_explained_characters, field="passage")
        return body.question, Passage(body.passage.text, body.passage.title)

    def _ask(body: ExplainRequest, question: str, passage: Passage) -> ExplainAsk:
        evaluations = body.max_evaluations or settings.default_explain_evaluations
        if evaluations > settings.max_explain_evaluations:
            raise refused("max_evaluations", f"must be {settings.max_explain_evaluations} or less here")
        return ExplainAsk(question, passage, body.unit, body.method, evaluations, body.seed)

    return router
