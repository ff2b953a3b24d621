"""Gathering: the knowledge for one question, as its action wants it and as its deadline allows."""

import asyncio
import time
from collections.abc import Coroutine, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from crag_core.actions import evidence_quality
from crag_core.degrade import (
    SEARCH_OUTAGES,
    TOO_LATE,
    Ladder,
    is_weak,
    older_copies,
    search_left_out,
    top_document_only,
    without_search,
)
from crag_core.generation import Evidence
from crag_core.protocols import Ask, Evaluation, Evaluator, Searcher
from crag_core.refinement import (
    KnowledgeRefiner,
    KnownScores,
    documents_to_refine,
    min_strip_score,
)
from crag_core.searching import KnowledgeSearch, Searched, sought_for
from crag_core.settings import ActionThresholds, CragSettings, DecomposeMode, NoEvidence
from crag_core.speculation import Ahead, QueueDelay, Speculation
from crag_core.strips import excerpt
from crag_core.trace import Recorder
from crag_core.types import (
    Action,
    Document,
    EvidenceQuality,
    Knowledge,
    Passage,
    PipelineName,
    ScoredStrip,
    Speculative,
    Stage,
)

First = TypeVar("First")
Second = TypeVar("Second")


@dataclass(frozen=True, slots=True)
class Gathering:
    """One question's knowledge: refined from the corpus, from the web, or from both at once."""

    evaluator: Evaluator
    searchers: Sequence[Searcher]
    ladder: Ladder
    ask: Ask
    settings: CragSettings
    recorder: Recorder
    documents: Sequence[Document]

    def begin_ahead(self, queue_delay: QueueDelay) -> Speculation:
        """Begin what some action will need, if the settings want it and the evaluator has the time."""
        wanted = self.settings.speculation
        if queue_delay.recent_s() > wanted.max_queue_delay_s:
            return Speculation()
        full = self._full_documents
        is_cut = self.settings.refinement.mode is not DecomposeMode.SELECTION

        async def score_strips(_: Recorder) -> KnownScores:  # they count when they are refined
            return await self._refiner.score_ahead(
                self.ladder.before_generating, self.ask.question.text, full
            )

        return Speculation(
            Ahead(Speculative.STRIPS, self.recorder, score_strips)
            if wanted.strips and is_cut and full
            else None,
            Ahead(Speculative.SEARCH, self.recorder, self._search)
            if wanted.search and self.settings.search and self.ladder.can_search()
            else None,
        )

    async def evaluate(self) -> Evaluation:
        """Score all documents in one call, and learn how fast the evaluator is at the moment."""
        passages = [Passage(document.text, document.title) for document in self.documents]
        started = time.perf_counter()
        with self.recorder.stage(Stage.EVALUATE):
            evaluation = await self.evaluator.evaluate(
                self.ladder.before_generating, self.ask.question.text, passages
            )
        characters = sum(len(passage.text) for passage in passages)
        self.ladder.evaluated(characters, time.perf_counter() - started)
        return evaluation

    async def unevaluated(self) -> Evidence:
        """The first document as the retrieval ranks them, for want of time to evaluate any."""
        self.recorder.degraded.append(top_document_only(Stage.EVALUATE))
        limit = self.settings.refinement.max_document_words
        strips = [
            ScoredStrip(await asyncio.to_thread(excerpt, document, limit), None)
            for document in self._full_documents[:1]
        ]
        return Evidence(
            pipeline=PipelineName.CRAG,
            knowledge=Knowledge(internal=tuple(strips)),
            documents={document.id: document for document in self.documents},
            quality=EvidenceQuality.WEAK,
            without=self.settings.no_evidence,
        )

    async def gather(
        self,
        action: Action,
        evaluation: Evaluation,
        thresholds: ActionThresholds,
        ahead: Speculation,
    ) -> Evidence:
        """The knowledge that the action calls for, as evidence for the generator."""
        chosen = documents_to_refine(
            action, self.documents, evaluation.scores, thresholds, self.settings.refinement
        )
        scores = {
            document.id: score
            for document, score in zip(self.documents, evaluation.scores, strict=True)
            if score is not None
        }
        known = KnownScores(scores, strip_min_score=evaluation.strip_min_score)
        minimum = min_strip_score(evaluation.strip_min_score, self.settings.refinement)
        internal: tuple[ScoredStrip, ...] = ()
        external: tuple[ScoredStrip, ...] = ()
        pages: Sequence[Document] = ()
        match action:
            case Action.CORRECT:
                strips = ahead.strips.result_if_ready() if ahead.strips else None
                await ahead.keep()
                internal = await self._refine(Stage.REFINE_INTERNAL, chosen, known.with_strips(strips))
            case Action.INCORRECT:
                await ahead.keep(Speculative.SEARCH)
                external, pages = await self._external(ahead.pages, minimum)
            case Action.AMBIGUOUS:
                internal, (external, pages) = await _both(
                    self._internal(chosen, known, ahead.strips),
                    self._external(ahead.pages, minimum),
                )
        evidence = Evidence(
            pipeline=PipelineName.CRAG,
            documents={document.id: document for document in (*self.documents, *pages)},
            action=action,
            without=self.settings.no_evidence,
        )
        knowledge = Knowledge(internal, external)
        if self.settings.weak_evidence is NoEvidence.ABSTAIN and is_weak(knowledge.strips, minimum):
            return replace(evidence, without=NoEvidence.ABSTAIN)
        used = {scored.strip.document_id for scored in internal}
        quality = evidence_quality(
            [scored.score for scored in knowledge.strips],
            [scores[document_id] for document_id in used],
            thresholds.upper,
        )
        return replace(evidence, knowledge=knowledge, quality=quality)

    @property
    def _full_documents(self) -> list[Document]:
        return [document for document in self.documents if document.text.strip()]

    async def _internal(
        self, documents: Sequence[Document], known: KnownScores, ahead: Ahead[KnownScores] | None
    ) -> tuple[ScoredStrip, ...]:
        try:
            strips = await ahead.result() if ahead else None
        except TOO_LATE as error:
            self.ladder.go_on_after(error)
            strips = None
        return await self._refine(Stage.REFINE_INTERNAL, documents, known.with_strips(strips))

    async def _external(
        self, ahead: Ahead[Searched] | None, minimum: float
    ) -> tuple[tuple[ScoredStrip, ...], Sequence[Document]]:
        if not self.settings.search:
            return (), ()
        if ahead is None and not self.ladder.can_search():
            self.recorder.degraded.append(search_left_out())
            return (), ()
        try:
            searched = await (ahead.result() if ahead else self._search(self.recorder))
        except TOO_LATE as error:  # the pages were found, and could not be told apart in time
            self.ladder.go_on_after(error)
            self.recorder.degraded.append(without_search(error))
            return (), ()
        pages: Sequence[Document] = searched.documents
        strips = await self._refine(Stage.REFINE_EXTERNAL, pages, KnownScores())
        if self.settings.searching.whole_pages and pages and best_score(strips) < minimum:
            best = strips[0].strip.document_id if strips else pages[0].id
            page = next(page for page in pages if page.id == best)
            if paragraphs := await self._read(searched, page):
                pages = (*pages, *paragraphs)
                strips = await self._refine(Stage.REFINE_EXTERNAL, pages, KnownScores())
        return strips, pages

    async def _search(self, recorder: Recorder) -> Searched:
        search = KnowledgeSearch(self.searchers, self.evaluator, self.settings.searching)
        return await search.search(
            self.ladder.before_generating,
            sought_for(self.ask.question, self.documents),
            recorder,
            limit=self.settings.search_limit,
            thresholds=self.settings.thresholds,
        )

    async def _read(self, searched: Searched, page: Document) -> Sequence[Document]:
        """The page in full; when that fails its lead has to do."""
        if searched.source is None:
            return ()
        self.recorder.search_calls += 1
        try:
            with self.recorder.stage(Stage.SEARCH):
                paragraphs = await searched.source.read(self.ladder.before_generating, page)
        except SEARCH_OUTAGES as outage:
            self.recorder.degraded.append(without_search(outage))
            return ()
        self.recorder.read()
        for rung in older_copies(paragraphs):
            self.recorder.took_once(rung)
        return paragraphs

    @property
    def _refiner(self) -> KnowledgeRefiner:
        return KnowledgeRefiner(self.evaluator, self.settings.refinement)

    async def _refine(
        self, stage: Stage, documents: Sequence[Document], known: KnownScores
    ) -> tuple[ScoredStrip, ...]:
        if not documents:
            return ()
        with self.recorder.stage(stage):
            return await self._refiner.refine(
                self.ladder, stage, self.ask.question.text, documents, known, self.recorder
            )


def best_score(strips: Sequence[ScoredStrip]) -> float:
    """The best score among strips."""
    scores = (scored.score for scored in strips if scored.score is not None)
    return max(scores, default=float("-inf"))


async def _both(
    first: Coroutine[Any, Any, First], second: Coroutine[Any, Any, Second]
) -> tuple[First, Second]:
    """Run two coroutines at once; when one fails the other is cancelled, and that error is raised."""
    try:
        async with asyncio.TaskGroup() as group:
            tasks = group.create_task(first), group.create_task(second)
    except BaseExceptionGroup as failures:
        raise failures.exceptions[0] from None
    return tasks[0].result(), tasks[1].result()
