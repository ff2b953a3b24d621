"""The recorder of one answer: stage times, scores, and the rungs taken."""

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from crag_core.errors import CragError
from crag_core.protocols import Evaluation
from crag_core.settings import ActionThresholds
from crag_core.types import (
    Degradation,
    Document,
    Hop,
    Knowledge,
    ScoredDocument,
    Speculated,
    Speculative,
    Stage,
    StageRecord,
    TokenUsage,
    Trace,
    Usage,
)


@dataclass(slots=True)
class Recorder:
    """Collects what happens while an answer is made; stages may run side by side."""

    degraded: list[Degradation] = field(default_factory=list)
    search_calls: int = 0
    search_query: str | None = None
    strips_scored: int = 0
    fallback: str | None = None
    speculated: dict[Speculative, Speculated] = field(default_factory=dict)
    spent: Usage = field(default_factory=Usage)
    hops: tuple[Hop, ...] = ()
    _started: float = field(default_factory=time.perf_counter)
    _stages: list[StageRecord] = field(default_factory=list)
    _documents: tuple[ScoredDocument, ...] = ()
    _searched: tuple[ScoredDocument, ...] = ()
    _thresholds: ActionThresholds | None = None
    _strip_min_score: float | None = None
    _evaluator_id: str | None = None
    _evaluator_queue_s: float = 0.0

    def aside(self) -> "Recorder":
        """An empty record on the same clock, for work that may turn out not to be needed."""
        return Recorder(_started=self._started)

    def absorb(self, aside: "Recorder") -> None:
        """Take over what was recorded aside."""
        self.degraded += aside.degraded
        self.search_calls += aside.search_calls
        self.search_query = aside.search_query or self.search_query
        self.strips_scored += aside.strips_scored
        self._stages += aside._stages
        self._searched = aside._searched or self._searched

    @contextmanager
    def stage(self, stage: Stage) -> Iterator[None]:
        """Time one stage; an error passes through and leaves its code."""
        started, error_code = time.perf_counter(), None
        try:
            yield
        except CragError as error:
            error_code = error.code
            raise
        finally:
            now = time.perf_counter()
            self._stages.append(StageRecord(stage, started - self._started, now - started, error_code))

    def evaluated(
        self,
        documents: Sequence[Document],
        evaluation: Evaluation,
        thresholds: ActionThresholds,
        strip_min_score: float,
    ) -> None:
        """Record the documents' scores and the thresholds that they are held against."""
        self._documents = tuple(
            ScoredDocument(document.id, document.title, score, truncated)
            for document, score, truncated in zip(
                documents, evaluation.scores, evaluation.truncated, strict=True
            )
        )
        self._thresholds = thresholds
        self._strip_min_score = strip_min_score
        self._evaluator_id = evaluation.evaluator_id
        self._evaluator_queue_s = evaluation.queue_s

    def completed(self, tokens: TokenUsage, *, attempts: int = 1) -> None:
        """Count one successful completion, the failed attempts before it too."""
        self.spent = Usage(
            prompt_tokens=self.spent.prompt_tokens + tokens.prompt_tokens,
            completion_tokens=self.spent.completion_tokens + tokens.completion_tokens,
            llm_calls=self.spent.llm_calls + 1,
            llm_attempts=self.spent.llm_attempts + attempts,
        )

    def searched(self, documents: Sequence[Document]) -> None:
        """Record the pages that the search found."""
        self._searched = tuple(
            ScoredDocument(document.id, document.title, None, False) for document in documents
        )

    def trace(self, knowledge: Knowledge) -> Trace:
        """The finished trace; stages in the order in which they started."""
        thresholds = self._thresholds.model_dump() if self._thresholds else {}
        return Trace(
            stages=tuple(sorted(self._stages, key=lambda record: record.started_s)),
            documents=self._documents,
            searched=self._searched,
            thresholds=thresholds,
            strip_min_score=self._strip_min_score,
            evaluator_id=self._evaluator_id,
            strips_scored=self.strips_scored,
            strips_kept=len(knowledge.strips),
            search_query=self.search_query,
            fallback=self.fallback,
            evaluator_queue_s=self._evaluator_queue_s,
            speculated=dict(self.speculated),
            hops=self.hops,
        )
