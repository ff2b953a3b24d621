"""The application, wired: validate the settings, make each deployment once, bind it to its clients."""

import os
from dataclasses import dataclass
from typing import Any

from pydantic import SecretStr
from ray import serve
from ray.serve import Application

from crag_core.types import PipelineName
from deployments.atomic_qa_retriever import AtomicQARetriever
from deployments.clients import (
    AtomicQARetrieverClient,
    EvaluatorClient,
    GeneratorClient,
    HopReaderClient,
    PipelineClient,
    RetrieverClient,
    SearchBudgetClient,
    SearcherClient,
)
from deployments.compact_graph import CompactGraph
from deployments.crag_graph import CragGraph
from deployments.evaluator import Evaluator
from deployments.generator import Generator
from deployments.hop_reader import HopReader
from deployments.ingress import Ingress
from deployments.readiness import CompactStages
from deployments.retriever import Retriever
from deployments.search_budget import SearchBudgetActor
from deployments.searcher import Searcher
from deployments.settings import AppSettings

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


def build_app(args: dict[str, Any]) -> Application:
    """The application for the `args:` of a Serve config file.

    Placement (replicas, CPUs, GPUs, limits) stands in the file's `deployments:`. Raises pydantic's
    ValidationError, which names the setting that is wrong.
    """
    return wired(AppSettings.model_validate(args), Leaves())


def wired(settings: AppSettings, leaves: Leaves) -> Application:
    """Every deployment once, leaves first."""
    retriever = RetrieverClient(_bound(leaves.retriever, settings.retriever))
    evaluator = EvaluatorClient(_bound(leaves.evaluator, settings.evaluator))
    mediawiki = settings.searcher.mediawiki
    budget = mediawiki and SearchBudgetClient(SearchBudgetActor, mediawiki)
    searcher = _bound(leaves.searcher, settings.searcher, budget, secret(MEDIAWIKI_TOKEN))
    searchers = [SearcherClient(searcher, source) for source in settings.searcher.sources]
    generator = GeneratorClient(_bound(leaves.generator, settings.generator, evaluator))
    graph = _bound(
        CragGraph, retriever, evaluator, searchers, generator, settings.crag, settings.generator
    )
    pipelines = {
        name: PipelineClient(graph, name)
        for name in (PipelineName.CRAG, PipelineName.RAG, PipelineName.NO_RETRIEVAL)
    }
    compact = _compact_stages(settings, leaves)
    if settings.compact is not None and compact is not None:
        graph = _bound(
            CompactGraph,
            compact.pairs,
            compact.reader,
            retriever,
            generator,
            settings.compact.pipeline,
            settings.crag,
            settings.generator,
        )
        pipelines[PipelineName.COMPACT] = PipelineClient(graph, PipelineName.COMPACT)
    application: Application = _bound(
        _with_http(Ingress),
        pipelines,
        retriever,
        evaluator,
        searchers,
        settings.crag.searching,
        settings.api,
        compact,
        secret(API_KEYS),
    )
    return application


def _compact_stages(settings: AppSettings, leaves: Leaves) -> CompactStages | None:
    """The stages of pipeline `compact`, where it is configured."""
    if settings.compact is None:
        return None
    return CompactStages(
        AtomicQARetrieverClient(_bound(leaves.pairs, settings.compact.knowledge_base)),
        HopReaderClient(_bound(leaves.hop_reader, settings.compact.reader)),
    )


def _bound(replica: type, *arguments: Any) -> Any:
    """A deployment of the class, which stands for its handle in whatever it is bound to."""
    return serve.deployment(name=replica.__name__)(replica).bind(*arguments)


def secret(name: str) -> SecretStr | None:
    """A secret of the environment, in a wrapper that shows it to no log."""
    value = os.environ.get(name)
    return SecretStr(value) if value else None


def _with_http(ingress: type) -> type:
    wrapped: type = serve.ingress()(ingress)
    return wrapped
