"""The application, wired: validate the settings, make each deployment once, bind it to its clients."""

from typing import Any

from ray import serve
from ray.serve import Application

from crag_core.types import PipelineName
from deployments.clients import (
    EvaluatorClient,
    GeneratorClient,
    PipelineClient,
    RetrieverClient,
    SearcherClient,
)
from deployments.crag_graph import CragGraph
from deployments.evaluator import Evaluator
from deployments.generator import Generator
from deployments.ingress import Ingress
from deployments.retriever import Retriever
from deployments.searcher import Searcher
from deployments.settings import AppSettings


def build_app(args: dict[str, Any]) -> Application:
    """The application for the `args:` of a Serve config file.

    Placement (replicas, CPUs, GPUs, limits) stands in the file's `deployments:`. Raises pydantic's
    ValidationError, which names the setting that is wrong.
    """
    settings = AppSettings.model_validate(args)
    retriever = RetrieverClient(_bound(Retriever, settings.retriever))
    evaluator = EvaluatorClient(_bound(Evaluator, settings.evaluator))
    searcher = _bound(Searcher, settings.searcher)
    searchers = [SearcherClient(searcher, source) for source in settings.searcher.sources]
    generator = GeneratorClient(_bound(Generator, settings.generator, evaluator))
    graph = _bound(
        CragGraph, retriever, evaluator, searchers, generator, settings.crag, settings.generator
    )
    pipelines = {
        name: PipelineClient(graph, name)
        for name in (PipelineName.CRAG, PipelineName.RAG, PipelineName.NO_RETRIEVAL)
    }
    application: Application = _bound(
        _with_http(Ingress),
        pipelines,
        retriever,
        evaluator,
        searchers,
        settings.crag.searching,
        settings.api,
    )
    return application


def _bound(replica: type, *arguments: Any) -> Any:
    """A deployment of the class, which stands for its handle in whatever it is bound to."""
    return serve.deployment(name=replica.__name__)(replica).bind(*arguments)


def _with_http(ingress: type) -> type:
    wrapped: type = serve.ingress()(ingress)
    return wrapped
