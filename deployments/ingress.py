"""The ingress: the HTTP API over clients of every stage and graph."""

import asyncio
from collections.abc import Mapping, Sequence

from fastapi import FastAPI
from pydantic import SecretStr

from crag_core.explaining import Explainer
from crag_core.protocols import Evaluator, Pipeline, Retriever, Searcher
from crag_core.searching import KnowledgeSearch
from crag_core.settings import CragSettings
from crag_core.types import PipelineName
from deployments.admission.admission import Admission
from deployments.admission.sharing import Board, share
from deployments.api.access import access_for
from deployments.api.app import create_api
from deployments.api.explain import NothingExplained, NothingRecorded
from deployments.api.keys import Keys
from deployments.api.observing import Observers
from deployments.api.services import Services
from deployments.observability.admission_metrics import AdmissionMetrics
from deployments.observability.answer_metrics import AnswerMetrics
from deployments.observability.gather import GatheredMetrics, gather_metrics
from deployments.observability.logs import RequestLog
from deployments.observability.meter import meter
from deployments.observability.redaction import redact_logs
from deployments.observability.tracing import TraceRequests
from deployments.readiness import Canary, CompactStages, probes
from deployments.records.kept import KeptAnswers, RecordKeeper, Records
from deployments.serve_state import Fleet, listens_outside_loopback
from deployments.settings import AdmissionSettings, ApiSettings, ObservabilitySettings

_DEFAULT = ObservabilitySettings()


class Ingress:
    """Takes HTTP requests; holds one client per stage and per pipeline."""

    def __init__(
        self,
        pipelines: Mapping[PipelineName, Pipeline],
        retriever: Retriever,
        evaluator: Evaluator,
        searchers: Sequence[Searcher],
        crag: CragSettings,
        settings: ApiSettings,
        admission: AdmissionSettings,
        board: Board | None,
        compact: CompactStages | None = None,
        given_keys: SecretStr | None = None,
        explainer: Explainer | None = None,
        observability: ObservabilitySettings = _DEFAULT,
        records: Records | None = None,
    ) -> None:
        """Reads the API keys; raises SettingsError when one is needed and there is none."""
        redact_logs()
        self._settings = settings
        self._keys = Keys(given_keys, settings.access.keys_file)
        self._board = board
        self._admission = Admission.of(admission, crag, AdmissionMetrics(meter()))
        asked = probes(retriever, evaluator, searchers, pipelines, compact)
        self._canary = Canary(asked, Fleet())
        self._services = Services(
            pipelines=pipelines,
            evaluator=evaluator,
            search=KnowledgeSearch(searchers, evaluator, crag.searching),
            readiness=self._canary,
            metrics=GatheredMetrics(gather_metrics).page,
            observer=Observers(
                AnswerMetrics(meter()),
                RequestLog(with_texts=observability.log_texts),
                *([RecordKeeper(records)] if records else []),
            ),
            access=access_for(settings.access, self._keys, is_outside=listens_outside_loopback()),
            admission=self._admission,
            explainer=explainer or NothingExplained(),
            recorded=KeptAnswers(records) if records else NothingRecorded(),
        )

    def __serve_build_asgi_app__(self) -> FastAPI:  # Serve calls it by this name
        # kept: the event loop holds tasks only weakly
        self._running = [
            asyncio.ensure_future(self._canary.run()),
            asyncio.ensure_future(self._keys.watch()),
        ]
        if self._board is not None:
            self._running.append(asyncio.ensure_future(share(self._admission.gate, self._board)))
        return self.api()

    def api(self) -> FastAPI:
        """The HTTP layer alone: nothing watches replicas or keys."""
        api = create_api(self._services, self._settings)
        api.add_middleware(TraceRequests)
        return api
