"""Stages that answer at once, with other documents for each question: what is left is the graph.

`build_app` keeps the generator real, `build_evaluator_app` the evaluator.
"""

import random
from collections.abc import AsyncGenerator, Sequence
from typing import Any

from ray.serve import Application

import deployments.evaluator
import deployments.generator
import deployments.retriever
import deployments.searcher
from benchmarks.load.texts import biography
from crag_core.protocols import Evaluation, SearchResult
from crag_core.settings import ActionThresholds
from crag_core.types import (
    Completion,
    Document,
    DocumentSource,
    FoundPage,
    SearchQuery,
    Strategy,
    TokenUsage,
)
from deployments.app import Leaves, wired
from deployments.messages import EvaluateRequest, GenerateRequest, RetrieveRequest, SearchRequest
from deployments.settings import AppSettings

_THRESHOLDS = ActionThresholds(upper=0.5, lower=-0.5)
_AMBIGUOUS_SCORE = 0.0
"""Between the thresholds: AMBIGUOUS is the one action that takes every stage."""


def documents(query: str, count: int, source: DocumentSource) -> list[Document]:
    """So many documents of about a hundred words, which the query decides."""
    random_ = random.Random(f"{source}/{query}")
    return [
        Document(f"{source}:{number}", biography(random_), f"Page {number}", source)
        for number in range(count)
    ]


class Retriever(deployments.retriever.Retriever):
    """Always finds."""

    def __init__(self, settings: object) -> None:
        """Opens nothing."""

    async def retrieve(self, request: RetrieveRequest) -> Sequence[Document]:
        """As many documents as are asked for."""
        return documents(request.query, request.limit, DocumentSource.CORPUS)


class Evaluator(deployments.evaluator.Evaluator):
    """Is never sure."""

    def __init__(self, settings: object) -> None:
        """Loads nothing."""

    async def evaluate(self, request: EvaluateRequest) -> Evaluation:
        """One score for all."""
        count = len(request.passages)
        scores = (_AMBIGUOUS_SCORE,) * count
        return Evaluation(scores, (False,) * count, _THRESHOLDS, _AMBIGUOUS_SCORE, "instant")

    def check_health(self) -> None:
        """Well."""


class Searcher(deployments.searcher.Searcher):
    """Always finds."""

    def __init__(self, settings: object, budget: object = None, token: object = None) -> None:
        """Opens nothing."""

    async def search(self, request: SearchRequest) -> SearchResult:
        """As many pages as are asked for."""
        text = request.sought.text
        query = SearchQuery(text, Strategy.SEARCH, text, "instant")
        found = documents(text, request.limit, request.source)
        pages = tuple(FoundPage(page, query, Strategy.SEARCH) for page in found)
        return SearchResult(pages, (query,))


class Generator(deployments.generator.Generator):
    """Knows one word."""

    async def __init__(  # type: ignore[misc]  # Serve awaits an asynchronous constructor
        self, settings: object, evaluator: object
    ) -> None:
        """Starts nothing."""

    async def generate(self, request: GenerateRequest) -> AsyncGenerator[Completion]:
        """The whole completion in one piece."""
        yield Completion("Yes.", "stop", TokenUsage(1, 1))

    async def check_health(self) -> None:
        """Well."""


def build_app(args: dict[str, Any]) -> Application:
    """The application with the real generator."""
    leaves = Leaves(Retriever, Evaluator, Searcher)
    application: Application = wired(AppSettings.model_validate(args), leaves)
    return application


def build_evaluator_app(args: dict[str, Any]) -> Application:
    """The application with the real evaluator."""
    leaves = Leaves(retriever=Retriever, searcher=Searcher, generator=Generator)
    application: Application = wired(AppSettings.model_validate(args), leaves)
    return application
