"""`POST /v1/rerank`: the retrieval evaluator alone, as other rerankers are called."""

import time
from typing import Annotated

from fastapi import APIRouter, Header, Request

from crag_core import errors
from crag_core.protocols import Evaluator
from crag_core.types import Passage, Stage
from deployments.admission.admission import Admission
from deployments.api import routes
from deployments.api.answering import before_deadline, request_context
from deployments.api.errors import documented
from deployments.api.schemas.answer import AnswerHeaders
from deployments.api.schemas.rerank import RerankRequest, RerankResponse, RerankResult
from deployments.api.sizes import check_documents, check_question
from deployments.settings import ApiSettings

_RERANK_ERRORS = (
    errors.InvalidQuestion,
    errors.InvalidTimeout,
    errors.Overloaded,
    errors.StageUnavailable,
    errors.StageTimedOut,
    errors.EvaluationFailed,
)


def rerank_routes(evaluator: Evaluator, settings: ApiSettings, admission: Admission) -> APIRouter:
    """The route."""
    router = APIRouter(tags=["rerank"])

    @router.post(
        routes.RERANK,
        summary="Order documents by relevance",
        response_model_exclude_unset=True,
        responses=documented(*_RERANK_ERRORS),
    )
    async def rerank(
        request: Request, body: RerankRequest, headers: Annotated[AnswerHeaders, Header()]
    ) -> RerankResponse:
        """Score each document against the query; best first, ties in the order given."""
        check_question(body.query, settings, field="query")
        check_documents(
            body.documents, settings, max_documents=settings.max_rerank_documents, field="documents"
        )
        passages = [Passage(document.text, document.title) for document in body.documents]
        ctx = request_context(request, headers, settings)
        demand = admission.costs.of_rerank(passage.text for passage in passages)
        started_s = time.monotonic()
        with admission.gate.admitted(ctx, demand) as ticket:
            async with before_deadline(ctx):
                evaluation = await evaluator.evaluate(ctx, body.query, passages)
            ticket.took({Stage.EVALUATE: time.monotonic() - started_s})
        return RerankResponse(results=_best_first(body, evaluation.scores))

    return router


def _best_first(body: RerankRequest, scores: tuple[float | None, ...]) -> list[RerankResult]:
    scored = sorted(
        enumerate(scores), key=lambda entry: (entry[1] is None, -(entry[1] or 0.0), entry[0])
    )
    if body.return_documents:
        return [
            RerankResult(index=index, relevance_score=score, document=body.documents[index])
            for index, score in scored[: body.top_n]
        ]
    return [RerankResult(index=index, relevance_score=score) for index, score in scored[: body.top_n]]
