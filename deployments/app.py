"""The application, wired: validate the settings, make each deployment once, bind it to its clients."""

import os
from dataclasses import dataclass
from typing import Any, Protocol

from pydantic import SecretStr
from ray import serve
from ray.serve import Application

from crag_core.types import PipelineName
from deployments.admission.load_board import LoadBoard
from deployments.admission.sharing import Board
from deployments.atomic_qa_retriever import AtomicQARetriever
from deployments.backends.wikipedia.budget import SearchBudget
from deployments.clients import (
    AtomicQARetrieverClient,
    EvaluatorClient,
    ExplainClient,
    GeneratorClient,
    HopReaderClient,
    PipelineClient,
    RetrieverClient,
    SearcherClient,
)
from deployments.compact_graph import CompactGraph
from deployments.crag_graph import CragGraph
from deployments.evaluator import Evaluator
from deployments.explain_graph import ExplainGraph
from deployments.generator import Generator
from deployments.hop_reader import HopReader
from deployments.ingress import Ingress
from deployments.observability.process import observed
from deployments.readiness import CompactStages
from deployments.records.kept import Records
from deployments.records.store import RecordStore
from deployments.retriever import Retriever
from deployments.search_budget import SearchBudgetActor
from deployments.searcher import Searcher
from deployments.settings import AppSettings, MediaWikiSettings, ObservabilitySettings, RecordSettings
from deployments.shared_actors import LoadBoardClient, RecordStoreClient, SearchBudgetClient

MEDIAWIKI_TOKEN = "CRAG_MEDIAWIKI_TOKEN"
"""The environment variable with the operator's OAuth token for the wiki; it may be absent."""

API_KEYS = "CRAG_API_KEYS"
"""The environment variable with API keys, in the lines of a keys file; it may be absent."""


@dataclass(frozen=True, slots=True)
class Leaves:
    """The classes of the leaf replicas; what measures serving alone puts instant ones in their place."""

    retriever: type = Retriever
    evaluator: type = Evaluator
    searcher: type = Searcher
    generator: type = Generator
    pairs: type = AtomicQARetriever
    hop_reader: type = HopReader


class Hosting(Protocol):
    """Where the replicas live: deployments of Ray Serve, or objects of one process."""

    def bound(self, replica: type, *arguments: Any) -> Any:
        """The class with its arguments, as a handle in whatever it is bound to."""
        ...

    def search_budget(self, settings: MediaWikiSettings) -> SearchBudget | None:
        """The budget that all searchers share; none where there is one searcher."""
        ...

    def load_board(self) -> Board | None:
        """Where the ingresses tell each other what they have let in; none where there is one."""
        ...

    def records(self, settings: RecordSettings) -> Records:
        """Where decision records are kept."""
        ...


@dataclass(frozen=True, slots=True)
class RayServe:
    """Every class is a deployment, and all searchers of a cluster share one budget."""

    observability: ObservabilitySettings

    def bound(self, replica: type, *arguments: Any) -> Any:
        """A deployment of the class, which stands for its handle in whatever it is bound to."""
        seen = observed(replica, self.observability)
        served = _with_http(seen) if replica is Ingress else seen
        return serve.deployment(name=replica.__name__)(served).bind(*arguments)

    def search_budget(self, settings: MediaWikiSettings) -> SearchBudget:
        """The budget in the cluster's actor."""
        return SearchBudgetClient(SearchBudgetActor, settings)

    def load_board(self) -> Board:
        """The board in the application's actor."""
        return LoadBoardClient(LoadBoard)

    def records(self, settings: RecordSettings) -> Records:
        """The store in the application's actor."""
        return RecordStoreClient(RecordStore, settings)


def build_app(args: dict[str, Any]) -> Application:
    """The application for the `args:` of a Serve config file.

    Placement (replicas, CPUs, GPUs, limits) stands in the file's `deployments:`. Raises pydantic's
    ValidationError, which names the setting that is wrong.
    """
    application: Application = wired(AppSettings.model_validate(args), Leaves())
    return application


def wired(settings: AppSettings, leaves: Leaves, hosting: Hosting | None = None) -> Any:
    """Every deployment once, leaves first; what stands for the ingress where they are hosted."""
    hosting = hosting or RayServe(settings.observability)
    bound = hosting.bound
    keeps_records = settings.observability.records.max_answers > 0
    retriever = RetrieverClient(bound(leaves.retriever, settings.retriever))
    evaluator = EvaluatorClient(bound(leaves.evaluator, settings.evaluator))
    explainer = settings.explain and ExplainClient(bound(ExplainGraph, evaluator, settings.explain))
    mediawiki = settings.searcher.mediawiki
    budget = mediawiki and hosting.search_budget(mediawiki)
    searcher = bound(leaves.searcher, settings.searcher, budget, secret(MEDIAWIKI_TOKEN))
    searchers = [SearcherClient(searcher, source) for source in settings.searcher.sources]
    generator = GeneratorClient(bound(leaves.generator, settings.generator, evaluator))
    graph = bound(
        CragGraph,
        retriever,
        evaluator,
        searchers,
        generator,
        settings.crag,
        settings.generator,
        settings.observability.records,
    )
    pipelines = {
        name: PipelineClient(graph, name)
        for name in (PipelineName.CRAG, PipelineName.RAG, PipelineName.NO_RETRIEVAL)
    }
    compact = _compact_stages(settings, leaves, hosting)
    if settings.compact is not None and compact is not None:
        graph = bound(
            CompactGraph,
            compact.pairs,
            compact.reader,
            retriever,
            generator,
            settings.compact.pipeline,
            settings.crag,
            settings.generator,
            settings.observability.records,
        )
        pipelines[PipelineName.COMPACT] = PipelineClient(graph, PipelineName.COMPACT)
    return bound(
        Ingress,
        pipelines,
        retriever,
        evaluator,
        searchers,
        settings.crag,
        settings.api,
        settings.admission,
        hosting.load_board(),
        compact,
        secret(API_KEYS),
        explainer,
        settings.observability,
        hosting.records(settings.observability.records) if keeps_records else None,
    )


def _compact_stages(settings: AppSettings, leaves: Leaves, hosting: Hosting) -> CompactStages | None:
    """The stages of pipeline `compact`, where it is configured."""
    if settings.compact is None:
        return None
    return CompactStages(
        AtomicQARetrieverClient(hosting.bound(leaves.pairs, settings.compact.knowledge_base)),
        HopReaderClient(hosting.bound(leaves.hop_reader, settings.compact.reader)),
    )


def secret(name: str) -> SecretStr | None:
    """A secret of the environment, in a wrapper that shows it to no log."""
    value = os.environ.get(name)
    return SecretStr(value) if value else None


def _with_http(ingress: type) -> type:
    wrapped: type = serve.ingress()(ingress)
    return wrapped
