"""The API over the real pipelines, with fakes beneath them: no port, no cluster, no model."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import httpx
from fastapi import FastAPI

from crag_core.baselines import NoRetrieval, Rag
from crag_core.crag import Crag
from crag_core.explaining import Explainer
from crag_core.generation import AnswerWriter
from crag_core.protocols import Pipeline
from crag_core.searching import KnowledgeSearch
from crag_core.settings import CragSettings, SearchingSettings
from crag_core.types import Document, PipelineName
from deployments.admission.admission import Admission
from deployments.api.access import Access
from deployments.api.app import Services, create_api
from deployments.api.explain import NothingExplained, NothingRecorded, RecordedAnswers
from deployments.api.health import StageState
from deployments.api.observing import Observation
from deployments.settings import AdmissionSettings, ApiSettings
from tests.fakes import (
    FakeAdmissionObserver,
    FakeEvaluator,
    FakeGenerator,
    FakeRetriever,
    FakeSearcher,
    FakeTokenCounter,
)

POLITICIAN = Document("p1", "Henry Feilden was a Conservative politician in Blackburn.", "Feilden")
QUESTION = "What is Henry Feilden's occupation?"


@dataclass
class FakeReadiness:
    """Says what it is told to say."""

    states: dict[str, StageState] = field(
        default_factory=lambda: {"evaluate": StageState("answered", ready=True)}
    )

    def stages(self) -> Mapping[str, StageState]:
        return self.states


@dataclass
class FakeObserver:
    """Remembers what it was told."""

    observations: list[Observation] = field(default_factory=list)

    def answered(self, observation: Observation) -> None:
        self.observations.append(observation)

    @property
    def outcomes(self) -> list[str]:
        return [observation.outcome for observation in self.observations]


async def fake_metrics() -> str:
    """One sample in Prometheus' text format."""
    return "crag_answers_total 1.0\n"


@dataclass
class Application:
    """An API and everything under it; `pipelines` replaces the real ones."""

    evaluator: FakeEvaluator = field(
        default_factory=lambda: FakeEvaluator({POLITICIAN.text: 0.9}, default=-0.9)
    )
    generator: FakeGenerator = field(default_factory=FakeGenerator)
    searcher: FakeSearcher = field(default_factory=FakeSearcher)
    retriever: FakeRetriever = field(default_factory=lambda: FakeRetriever((POLITICIAN,)))
    observer: FakeObserver = field(default_factory=FakeObserver)
    admission: Admission | None = None
    turned_away: FakeAdmissionObserver = field(default_factory=FakeAdmissionObserver)
    readiness: FakeReadiness = field(default_factory=FakeReadiness)
    settings: ApiSettings = field(default_factory=ApiSettings)
    access: Access = field(default_factory=Access)
    pipelines: Mapping[PipelineName, Pipeline] | None = None
    explainer: Explainer = field(default_factory=NothingExplained)
    recorded: RecordedAnswers = field(default_factory=NothingRecorded)

    def api(self) -> FastAPI:
        services = Services(
            self.pipelines or self._real_pipelines(),
            self.evaluator,
            KnowledgeSearch((self.searcher,), self.evaluator, SearchingSettings()),
            self.readiness,
            fake_metrics,
            self.observer,
            self.admission or Admission.of(AdmissionSettings(), CragSettings(), self.turned_away),
            self.access,
            self.explainer,
            self.recorded,
        )
        return create_api(services, self.settings)

    def client(self) -> httpx.AsyncClient:
        return httpx.AsyncClient(
            transport=httpx.ASGITransport(self.api()), base_url="http://crag.example"
        )

    async def post(self, path: str, body: Any, **headers: str) -> httpx.Response:
        async with self.client() as client:
            sent = {name.replace("_", "-"): value for name, value in headers.items()}
            if isinstance(body, bytes):
                sent = {"content-type": "application/json", **sent}
                return await client.post(path, content=body, headers=sent)
            return await client.post(path, json=body, headers=sent)

    async def answer(self, body: Any = None, /, **fields: Any) -> httpx.Response:
        """The response to QUESTION with these fields, or to this very body."""
        return await self.post("/v1/answer", body or {"question": QUESTION, **fields})

    async def chat(self, **fields: Any) -> httpx.Response:
        """The response to QUESTION as a chat completion with these fields."""
        messages = [{"role": "user", "content": QUESTION}]
        return await self.post("/v1/chat/completions", {"model": "crag", "messages": messages, **fields})

    def _real_pipelines(self) -> Mapping[PipelineName, Pipeline]:
        writer, settings = AnswerWriter(self.generator, FakeTokenCounter()), CragSettings()
        return {
            PipelineName.CRAG: Crag(self.retriever, self.evaluator, (self.searcher,), writer, settings),
            PipelineName.RAG: Rag(self.retriever, writer, settings),
            PipelineName.NO_RETRIEVAL: NoRetrieval(writer, settings),
        }


def refusal(response: httpx.Response) -> tuple[int, str, str | None]:
    """Status, code and field of an error, whose body must be whole."""
    error = response.json()["error"]
    assert error["message"] and error["request_id"] == response.headers["x-request-id"]
    return response.status_code, error["code"], error.get("field")
