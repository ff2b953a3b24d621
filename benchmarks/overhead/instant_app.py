"""The application with instant leaves: everything is real but the models and what they read."""

from collections.abc import AsyncGenerator, Sequence
from typing import Any

from ray.serve import Application

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
from deployments.messages import (
    EvaluateRequest,
    GenerateRequest,
    ReadRequest,
    RetrieveRequest,
    SearchRequest,
)
from deployments.settings import AppSettings

THRESHOLDS = ActionThresholds(upper=0.5, lower=-0.5)
AMBIGUOUS_SCORE = 0.0
"""Between the thresholds: AMBIGUOUS is the one action that takes every stage."""

_SENTENCE = "The {number}th lighthouse of the northern coast was built by J. K. Stevenson in 1850. "
_SENTENCES = 6


def documents(count: int, source: DocumentSource) -> list[Document]:
    """So many documents of about a hundred words."""
    return [
        Document(
            id=f"{source}:{number}",
            text=(_SENTENCE.format(number=number) * _SENTENCES).strip(),
            title=f"Lighthouse {number}",
            source=source,
        )
        for number in range(count)
    ]


class Retriever:
    """Always finds."""

    def __init__(self, settings: object) -> None:
        """Opens nothing."""

    async def retrieve(self, request: RetrieveRequest) -> Sequence[Document]:
        """As many documents as are asked for."""
        return documents(request.limit, DocumentSource.CORPUS)


class Evaluator:
    """Is never sure."""

    def __init__(self, settings: object) -> None:
        """Loads nothing."""

    async def evaluate(self, request: EvaluateRequest) -> Evaluation:
        """One score for all."""
        count = len(request.passages)
        return Evaluation(
            (AMBIGUOUS_SCORE,) * count, (False,) * count, THRESHOLDS, AMBIGUOUS_SCORE, "instant"
        )


class Searcher:
    """Always finds."""

    def __init__(self, settings: object, budget: object, token: object) -> None:
        """Opens nothing."""

    async def search(self, request: SearchRequest) -> SearchResult:
        """As many pages as are asked for."""
        query = SearchQuery(request.sought.text, Strategy.DIRECT, "", "instant")
        found = documents(request.limit, request.source)
        return SearchResult(tuple(FoundPage(page, query, Strategy.DIRECT) for page in found), (query,))

    async def read(self, request: ReadRequest) -> Sequence[Document]:
        """Nothing more than was found."""
        return ()


class Generator:
    """Knows one sentence."""

    def __init__(self, settings: object, evaluator: object) -> None:
        """Starts nothing."""

    async def generate(self, request: GenerateRequest) -> AsyncGenerator[Completion]:
        """The whole completion in one piece."""
        yield Completion("It was built in 1850 [1].", "stop", TokenUsage(100, 8))


LEAVES = Leaves(Retriever, Evaluator, Searcher, Generator)


def build_app(args: dict[str, Any]) -> Application:
    """The application for the `args:` of a Serve config file, its leaves instant."""
    application: Application = wired(AppSettings.model_validate(args), LEAVES)
    return application
