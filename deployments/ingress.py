"""The ingress: the HTTP API over clients of every stage and graph."""

import asyncio
from collections.abc import Mapping, Sequence

from fastapi import FastAPI

from crag_core.protocols import Evaluator, Pipeline, Retriever, Searcher
from crag_core.searching import KnowledgeSearch
from crag_core.settings import SearchingSettings
from crag_core.types import PipelineName
from deployments.api.app import create_api
from deployments.api.services import Services
from deployments.observability.gather import gather_metrics
from deployments.observability.metrics import AnswerMetrics
from deployments.readiness import Canary, CompactStages, probes
from deployments.settings import ApiSettings


class Ingress:
    """Takes HTTP requests; holds one client per stage and per pipeline."""

    def __init__(
        self,
        pipelines: Mapping[PipelineName, Pipeline],
        retriever: Retriever,
        evaluator: Evaluator,
        searchers: Sequence[Searcher],
        searching: SearchingSettings,
        settings: ApiSettings,
        compact: CompactStages | None = None,
    ) -> None:
        """Starts the canary that makes the application ready."""
        self._settings = settings
        self._canary = Canary(probes(retriever, evaluator, searchers, pipelines, compact))
        self._services = Services(
            pipelines=pipelines,
            evaluator=evaluator,
            search=KnowledgeSearch(searchers, evaluator, searching),
            readiness=self._canary,
            metrics=gather_metrics,
            observer=AnswerMetrics(),
        )

    def __serve_build_asgi_app__(self) -> FastAPI:  # Serve calls it by this name
        # kept: the event loop holds tasks only weakly
        self._probing = asyncio.ensure_future(self._canary.run())
        return create_api(self._services, self._settings)
