"""The operator's routes: liveness, readiness, metrics."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from fastapi import APIRouter, Response
from fastapi.responses import PlainTextResponse
from pydantic import BaseModel, Field

from crag_core.errors import NotReady
from deployments.api import routes
from deployments.api.errors import documented, status_of

_PROMETHEUS_TEXT = "text/plain; version=0.0.4; charset=utf-8"
_PAGE: dict[int | str, dict[str, Any]] = {
    200: {"content": {"text/plain": {"schema": {"type": "string"}}}}
}


@dataclass(frozen=True, slots=True)
class StageState:
    """A stage as an operator sees it: a word for its state, and whether requests can use it."""

    state: str
    ready: bool


class Readiness(Protocol):
    """The state of every stage by name, known without asking any of them now."""

    def stages(self) -> Mapping[str, StageState]: ...


class ReadinessReport(BaseModel):
    """Whether the application takes requests, and the state of each stage."""

    ready: bool = Field(description="True when every stage is ready.")
    stages: dict[str, StageState]


def health_routes(readiness: Readiness, metrics: Callable[[], Awaitable[str]]) -> APIRouter:
    """`GET /livez`, `GET /readyz` and `GET /metrics`."""
    router = APIRouter(tags=["operations"])

    @router.get(routes.LIVE, summary="Does the server run?")
    async def livez() -> dict[str, str]:
        """Answers as long as this server runs, whatever its stages do."""
        return {"status": "ok"}

    @router.get(
        routes.READY,
        summary="Can it answer?",
        responses={int(status_of(NotReady)): {"model": ReadinessReport}},
    )
    async def readyz(response: Response) -> ReadinessReport:
        """The state of every stage; not ready as long as one of them is not."""
        stages = dict(readiness.stages())
        report = ReadinessReport(ready=all(stage.ready for stage in stages.values()), stages=stages)
        if not report.ready:
            response.status_code = status_of(NotReady)
        return report

    @router.get(
        routes.METRICS,
        summary="Metrics",
        response_class=Response,  # errors are JSON, so no class names the type of all
        responses=documented(refusals={}) | _PAGE,
    )
    async def prometheus() -> PlainTextResponse:
        """The application's metrics in Prometheus' text format."""
        return PlainTextResponse(await metrics(), media_type=_PROMETHEUS_TEXT)

    return router
