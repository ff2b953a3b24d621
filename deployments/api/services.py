"""What the API is given: Protocols, and the core over them, so that it runs without a cluster."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field

from crag_core.explaining import Explainer
from crag_core.protocols import Evaluator, Pipeline
from crag_core.searching import KnowledgeSearch
from crag_core.types import PipelineName
from deployments.admission.admission import Admission
from deployments.api.access import Access
from deployments.api.explain import NothingExplained, NothingRecorded, RecordedAnswers
from deployments.api.health import Readiness
from deployments.api.observing import AnswerObserver


@dataclass(frozen=True, slots=True)
class Services:
    """Everything behind the routes; `metrics` returns the Prometheus text of this application."""

    pipelines: Mapping[PipelineName, Pipeline]
    evaluator: Evaluator
    search: KnowledgeSearch
    readiness: Readiness
    metrics: Callable[[], Awaitable[str]]
    observer: AnswerObserver
    admission: Admission
    access: Access = field(default_factory=Access)
    explainer: Explainer = field(default_factory=NothingExplained)
    recorded: RecordedAnswers = field(default_factory=NothingRecorded)
