"""The HTTP API, put together."""

from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, version

from fastapi import FastAPI, Security
from fastapi.middleware import Middleware
from fastapi.middleware.cors import CORSMiddleware
from fastapi.security import HTTPBearer

from deployments.api import errors, routes
from deployments.api.access import CheckKey
from deployments.api.answering import Answering
from deployments.api.explain import explain_routes
from deployments.api.health import health_routes
from deployments.api.limits import RequestLimits
from deployments.api.native import native_routes
from deployments.api.observing import ObserveAnswers
from deployments.api.openai import openai_routes
from deployments.api.rates import HeedRate
from deployments.api.records import record_routes
from deployments.api.rerank import rerank_routes
from deployments.api.safe_headers import SafeHeaders
from deployments.api.search import search_routes
from deployments.api.services import Services
from deployments.settings import ApiSettings

_KEY = Security(HTTPBearer(auto_error=False, description="An API key, where the server asks for one."))
"""Says so in the OpenAPI document; `CheckKey` does the checking."""

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
        "from the request, or made, and stands in every response. Say in `x-crag-timeout-s` how long "
        "you are willing to wait: what would come too late is refused at once with 429, whose "
        "`Retry-After` says when there will be room. Nothing has been started for what was refused. "
        "Where the server asks for an API key, send `Authorization: Bearer KEY`; `/metrics` needs one "
        "with the permission `operate`.",
        docs_url=routes.DOCS,
        openapi_url=routes.OPENAPI,
        redoc_url=None,
        redirect_slashes=False,
        middleware=[  # the outermost first
            *_cors(settings.access.cors_origins),
            Middleware(SafeHeaders),
            Middleware(
                RequestLimits, max_body_bytes=settings.max_body_bytes, max_body_s=settings.max_body_s
            ),
            Middleware(ObserveAnswers, observer=services.observer),
            Middleware(errors.AnswerBugs),
            Middleware(CheckKey, access=services.access),
            Middleware(HeedRate, rates=services.admission.rates),
        ],
    )
    errors.install(api)
    admission = services.admission
    answering = Answering(services.pipelines, settings, admission)
    for router in (
        native_routes(answering),
        openai_routes(answering),
        rerank_routes(services.evaluator, settings, admission),
        search_routes(services.search, settings, admission),
        record_routes(services.recorded),
        explain_routes(services.explainer, services.recorded, settings, admission),
    ):
        api.include_router(router, dependencies=[_KEY])
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
            "explain": routes.EXPLAIN,
            "ready": routes.READY,
        }

    return api


def _cors(origins: Sequence[str]) -> list[Middleware]:
    """What lets pages of these origins ask from a browser; without any, nothing does."""
    if not origins:
        return []
    return [
        Middleware(
            CORSMiddleware,
            allow_origins=origins,
            allow_methods=["GET", "POST"],
            allow_headers=["authorization", "content-type", "x-request-id", "x-crag-timeout-s"],
            expose_headers=["x-request-id", "retry-after"],
        )
    ]


def _version() -> str:
    try:
        return version(_NAME)
    except PackageNotFoundError:  # run from the source tree
        return "0"
