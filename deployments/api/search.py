"""`POST /v1/search`: knowledge searching alone: what is asked of the sources, and what they find."""

from typing import Annotated

from fastapi import APIRouter, Header, Request

from crag_core import errors
from crag_core.queries.plan import Sought
from crag_core.searching import KnowledgeSearch
from crag_core.trace import Recorder
from crag_core.types import Knowledge
from deployments.admission.admission import Admission
from deployments.admission.demand import BESIDE
from deployments.api import routes
from deployments.api.answering import before_deadline, request_context
from deployments.api.errors import documented
from deployments.api.schemas.answer import AnswerHeaders
from deployments.api.schemas.search import SearchRequest, SearchResponse, SearchResultItem
from deployments.api.sizes import check_question
from deployments.settings import ApiSettings

_SEARCH_ERRORS = (
    errors.InvalidQuestion,
    errors.InvalidTimeout,
    errors.Overloaded,
    errors.StageUnavailable,
    errors.StageTimedOut,
    errors.EvaluationFailed,
    errors.SearchFailed,
)


def search_routes(search: KnowledgeSearch, settings: ApiSettings, admission: Admission) -> APIRouter:
    """The route."""
    router = APIRouter(tags=["search"])

    @router.post(routes.SEARCH, summary="Search for pages", responses=documented(*_SEARCH_ERRORS))
    async def find(
        request: Request, body: SearchRequest, headers: Annotated[AnswerHeaders, Header()]
    ) -> SearchResponse:
        """Find pages as the pipeline `crag` does, and say how each was found.

        A `question` is made into queries; a `query` is looked up and searched for as it is.
        """
        is_query = body.query is not None
        text = (body.query if is_query else body.question) or ""
        check_question(text, settings, field="query" if is_query else "question")
        ctx = request_context(request, headers, settings)
        recorder = Recorder()
        with admission.gate.admitted(ctx, BESIDE):
            async with before_deadline(ctx):
                searched = await search.search(ctx, Sought(text, is_query), recorder, limit=body.limit)
        if searched.source is None and searched.outages:
            raise searched.outages[-1]
        trace = recorder.trace(Knowledge())
        by_id = {page.document_id: page for page in trace.searched}
        return SearchResponse(
            queries=trace.search_queries,
            results=[
                SearchResultItem.of(document, by_id[document.id]) for document in searched.documents
            ],
            same_name=[
                page.title for page in trace.searched if not page.used and page.score is not None
            ],
            requests=trace.search_requests,
            degraded=tuple(recorder.degraded),
        )

    return router
