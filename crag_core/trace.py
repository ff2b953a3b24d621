"""The recorder of one answer: stage times, scores, and the rungs taken."""

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

from crag_core.degrade import Paces
from crag_core.errors import CragError
from crag_core.protocols import Evaluation, SearchResult
from crag_core.settings import ActionThresholds
from crag_core.types import (
    Degradation,
    Document,
    FoundPage,
    Hop,
    Knowledge,
    Score,
    ScoredDocument,
    SearchedDocument,
    SearchQuery,
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
    strips_scored: int = 0
    fallbacks: dict[Stage, str] = field(default_factory=dict)
    speculated: dict[Speculative, Speculated] = field(default_factory=dict)
    spent: Usage = field(default_factory=Usage)
    hops: tuple[Hop, ...] = ()
    paces: Paces = field(default_factory=Paces)
    """Told how long each stage took that did not fail."""
    _started: float = field(default_factory=time.perf_counter)
    _stages: list[StageRecord] = field(default_factory=list)
    _documents: tuple[ScoredDocument, ...] = ()
    _searched: tuple[SearchedDocument, ...] = ()
    _search_queries: tuple[SearchQuery, ...] = ()
    _search_requests: int = 0
    _thresholds: ActionThresholds | None = None
    _strip_min_score: float | None = None
    _evaluator_id: str | None = None
    _evaluator_queue_s: float = 0.0

    def aside(self) -> "Recorder":
        """An empty record on the same clock, for work that may turn out not to be needed."""
        return Recorder(paces=self.paces, _started=self._started)

    def absorb(self, aside: "Recorder") -> None:
        """Take over what was recorded aside."""
        self.degraded += aside.degraded
        self.search_calls += aside.search_calls
        self.strips_scored += aside.strips_scored
        self.fallbacks |= aside.fallbacks
        self._stages += aside._stages
        self._searched = aside._searched or self._searched
        self._search_queries = aside._search_queries or self._search_queries
        self._search_requests += aside._search_requests

    @contextmanager
    def stage(self, stage: Stage) -> Iterator[None]:
        """Time one stage; an error passes through and leaves its code."""
        started, error_code = time.perf_counter(), None
        try:
            yield
        except CragError as error:
            error_code = error.code
            raise
        else:
            self.paces[stage].observe(time.perf_counter() - started)
        finally:
            now = time.perf_counter()
            self._stages.append(StageRecord(stage, started - self._started, now - started, error_code))

    def took_once(self, rung: Degradation) -> None:
        """Record a rung that several parts of an answer may take, once for all of them."""
        if rung not in self.degraded:
            self.degraded.append(rung)

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

    def attempt_failed(self) -> None:
        """Count a completion that was of no use, and is asked for again."""
        self.spent = replace(self.spent, llm_attempts=self.spent.llm_attempts + 1)

    def searched(
        self, result: SearchResult, chosen: Sequence[FoundPage], scores: Mapping[str, Score]
    ) -> None:
        """Record a search's queries and pages; `scores` are of those that share their name, by id."""
        used = {page.document.id for page in chosen}
        self._search_queries = result.queries
        self._search_requests = result.requests
        self._searched = tuple(
            SearchedDocument(
                document_id=page.document.id,
                title=page.document.title,
                url=page.document.url,
                revision=page.document.revision,
                strategy=page.strategy,
                query=page.query.text,
                score=scores.get(page.document.id),
                used=page.document.id in used,
            )
            for page in result.pages
        )

    def read(self) -> None:
        """Record one more request: a page was read in full."""
        self._search_requests += 1

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
            search_queries=self._search_queries,
            search_requests=self._search_requests,
            fallback=next(iter(self.fallbacks.values()), None),
            evaluator_queue_s=self._evaluator_queue_s,
            speculated=dict(self.speculated),
            hops=self.hops,
        )
