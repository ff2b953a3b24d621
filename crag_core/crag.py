"""Corrective retrieval augmented generation: retrieve, evaluate, trigger, gather, generate."""

import asyncio
from collections.abc import AsyncGenerator, Coroutine, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Any, TypeVar

from crag_core.actions import evidence_quality, trigger_action
from crag_core.context import RequestContext
from crag_core.degrade import SEARCH_OUTAGES, without_search
from crag_core.generation import AnswerWriter, Evidence
from crag_core.protocols import Ask, Evaluation, Evaluator, Retriever, Searcher
from crag_core.refinement import (
    KnowledgeRefiner,
    KnownScores,
    documents_to_refine,
    min_strip_score,
)
from crag_core.searching import KnowledgeSearch, Searched, sought_for
from crag_core.settings import ActionThresholds, CragSettings, DecomposeMode
from crag_core.speculation import Ahead, QueueDelay, Speculation
from crag_core.trace import Recorder
from crag_core.types import (
    Action,
    Answer,
    Document,
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
class Crag:
    """The corrective pipeline (CRAG, algorithm 1).

    `searchers` stand in order of preference: the web first, a local snapshot behind it.
    """

    retriever: Retriever
    evaluator: Evaluator
    searchers: Sequence[Searcher]
    writer: AnswerWriter
    settings: CragSettings
    queue_delay: QueueDelay = field(default_factory=QueueDelay)

    async def stream(self, ctx: RequestContext, ask: Ask) -> AsyncGenerator[str | Answer]:
        """Pieces of the answer, then the Answer.

        Raises the errors of its stages; a search outage alone degrades the answer instead.
        """
        settings = self.settings.with_options(ask.options, ask.sampling)
        recorder = Recorder()
        documents = await retrieve(ctx, ask, self.retriever, settings.retrieve_limit, recorder)
        gathering = _Gathering(self, ctx, ask, settings, recorder, documents)
        async with gathering.begin_ahead() as ahead:
            with recorder.stage(Stage.EVALUATE):
                evaluation = await self.evaluator.evaluate(
                    ctx, ask.question.text, [Passage(doc.text, doc.title) for doc in documents]
                )
            self.queue_delay.observe(evaluation.queue_s)
            thresholds = settings.thresholds or evaluation.thresholds
            minimum = min_strip_score(evaluation.strip_min_score, settings.refinement)
            recorder.evaluated(documents, evaluation, thresholds, minimum)
            action = trigger_action(evaluation.scores, thresholds)
            evidence = await gathering.gather(action, evaluation, thresholds, ahead)
        async with aclosing(
            self.writer.write(ctx, ask.question, evidence, settings, recorder)
        ) as pieces:
            async for piece in pieces:
                yield piece


async def retrieve(
    ctx: RequestContext, ask: Ask, retriever: Retriever, limit: int, recorder: Recorder
) -> Sequence[Document]:
    """The caller's own documents, or those of the corpus."""
    with recorder.stage(Stage.RETRIEVE):
        if ask.documents is not None:
            return ask.documents
        return await retriever.retrieve(ctx, ask.question.text, limit=limit)


@dataclass(frozen=True, slots=True)
class _Gathering:
    """One question's knowledge: refined from the corpus, from the web, or from both at once."""

    crag: Crag
    ctx: RequestContext
    ask: Ask
    settings: CragSettings
    recorder: Recorder
    documents: Sequence[Document]

    def begin_ahead(self) -> Speculation:
        """Begin what some action will need, if the settings want it and the evaluator has the time."""
        wanted = self.settings.speculation
        if self.crag.queue_delay.recent_s() > wanted.max_queue_delay_s:
            return Speculation()
        full = [document for document in self.documents if document.text.strip()]
        is_cut = self.settings.refinement.mode is not DecomposeMode.SELECTION

        async def score_strips(recorder: Recorder) -> KnownScores:
            known = await self._refiner.score_ahead(self.ctx, self.ask.question.text, full)
            recorder.strips_scored += len(known.strips)
            return known

        return Speculation(
            Ahead(Speculative.STRIPS, self.recorder, score_strips)
            if wanted.strips and is_cut and full
            else None,
            Ahead(Speculative.SEARCH, self.recorder, self._search)
            if wanted.search and self.settings.search
            else None,
        )

    async def gather(
        self,
        action: Action,
        evaluation: Evaluation,
        thresholds: ActionThresholds,
        ahead: Speculation,
    ) -> Evidence:
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
        used = {scored.strip.document_id for scored in internal}
        return Evidence(
            pipeline=PipelineName.CRAG,
            knowledge=Knowledge(internal, external),
            documents={document.id: document for document in (*self.documents, *pages)},
            action=action,
            quality=evidence_quality(
                [scored.score for scored in (*internal, *external)],
                [scores[document_id] for document_id in used],
                thresholds.upper,
            ),
            without=self.settings.no_evidence,
        )

    async def _internal(
        self, documents: Sequence[Document], known: KnownScores, ahead: Ahead[KnownScores] | None
    ) -> tuple[ScoredStrip, ...]:
        strips = await ahead.result() if ahead else None
        return await self._refine(Stage.REFINE_INTERNAL, documents, known.with_strips(strips))

    async def _external(
        self, ahead: Ahead[Searched] | None, minimum: float
    ) -> tuple[tuple[ScoredStrip, ...], Sequence[Document]]:
        if not self.settings.search:
            return (), ()
        searched = await (ahead.result() if ahead else self._search(self.recorder))
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
        search = KnowledgeSearch(self.crag.searchers, self.crag.evaluator, self.settings.searching)
        return await search.search(
            self.ctx,
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
                paragraphs = await searched.source.read(self.ctx, page)
        except SEARCH_OUTAGES as outage:
            self.recorder.degraded.append(without_search(outage))
            return ()
        self.recorder.read()
        return paragraphs

    @property
    def _refiner(self) -> KnowledgeRefiner:
        return KnowledgeRefiner(self.crag.evaluator, self.settings.refinement)

    async def _refine(
        self, stage: Stage, documents: Sequence[Document], known: KnownScores
    ) -> tuple[ScoredStrip, ...]:
        if not documents:
            return ()
        with self.recorder.stage(stage):
            return await self._refiner.refine(
                self.ctx, stage, self.ask.question.text, documents, known, self.recorder
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
