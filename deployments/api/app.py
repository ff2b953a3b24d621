"""The HTTP API, put together."""

from importlib.metadata import PackageNotFoundError, version

from fastapi import FastAPI
from fastapi.middleware import Middleware

from deployments.api import errors, routes
from deployments.api.answering import Answering
from deployments.api.health import health_routes
from deployments.api.limits import RequestLimits
from deployments.api.native import native_routes
from deployments.api.observing import ObserveAnswers
from deployments.api.openai import openai_routes
from deployments.api.rerank import rerank_routes
from deployments.api.search import search_routes
from deployments.api.services import Services
from deployments.settings import ApiSettings

__all__ = ["Services", "create_api"]

_NAME = "crag-serve"


def create_api(services: Services, settings: ApiSettings) -> FastAPI:
    """The API over the given services; needs no cluster, only an event loop."""
    api = FastAPI(
        title=_NAME,
        version=_version(),
        summary="Corrective retrieval augmented generation.",
        description="Answers questions from documents whose relevance was evaluated, corrected by "
        "a web search where they fall short. Every error has the same body; `x-request-id` is taken "
        "from the request, or made, and stands in every response.",
        docs_url=routes.DOCS,
        openapi_url=routes.OPENAPI,
        redoc_url=None,
        redirect_slashes=False,
        middleware=[  # the outermost first
            Middleware(RequestLimits, max_body_bytes=settings.max_body_bytes),
            Middleware(ObserveAnswers, observer=services.observer),
            Middleware(errors.AnswerBugs),
        ],
    )
    errors.install(api)
    answering = Answering(services.pipelines, settings)
    api.include_router(native_routes(answering))
    api.include_router(openai_routes(answering))
    api.include_router(rerank_routes(services.evaluator, settings))
    api.include_router(search_routes(services.search, settings))
    api.include_router(health_routes(services.readiness, services.metrics))

    @api.get(routes.ROOT, tags=["operations"], summary="What is this?")
    async def index() -> dict[str, str | list[str]]:
        """The server's name and version, and where to go from here."""
        return {
            "name": _NAME,
            "version": api.version,
            "pipelines": list(services.pipelines),
            "docs": routes.DOCS,
            "openapi": routes.OPENAPI,
            "answer": routes.ANSWER,
            "chat_completions": routes.CHAT_COMPLETIONS,
            "models": routes.MODELS,
            "rerank": routes.RERANK,
            "search": routes.SEARCH,
            "ready": routes.READY,
        }

    return api


def _version() -> str:
    try:
        return version(_NAME)
    except PackageNotFoundError:  # run from the source tree
        return "0"
