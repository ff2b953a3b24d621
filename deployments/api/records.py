"""`GET /v1/answers/{id}`: what an answer of the past was decided by."""

from typing import Annotated, Any

from fastapi import APIRouter, Path, Response

from crag_core import errors
from deployments.api import routes
from deployments.api.errors import OF_A_PATH, documented
from deployments.api.explain import RecordedAnswers

_RECORD: dict[int | str, dict[str, Any]] = {
    200: {"content": {"application/json": {"schema": {"type": "object"}}}}
}


def record_routes(recorded: RecordedAnswers) -> APIRouter:
    """The route."""
    router = APIRouter(tags=["answers"])

    @router.get(
        routes.ANSWERS,
        summary="Read a decision record",
        response_class=Response,
        responses=documented(errors.AnswerNotFound, refusals=OF_A_PATH) | _RECORD,
    )
    async def decision_record(
        answer_id: Annotated[str, Path(max_length=100, description="The `id` of an answer.")],
    ) -> Response:
        """Question, evidence, scores, settings and answer, as `crag replay` reads them.

        Kept for the last answers only, and where the application is set to keep any.
        """
        return Response(await recorded.record(answer_id), media_type="application/json")

    return router
