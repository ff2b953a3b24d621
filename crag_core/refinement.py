"""Knowledge refinement: decompose documents, score their strips, keep and recompose the best."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass

from crag_core.context import RequestContext
from crag_core.degrade import strips_left_out
from crag_core.protocols import Evaluation, Evaluator
from crag_core.settings import (
    ActionThresholds,
    CorrectScope,
    DecomposeMode,
    RefinementSettings,
    StripFallback,
)
from crag_core.strips import decompose, excerpt, recompose, select
from crag_core.trace import Recorder
from crag_core.types import Action, Document, Passage, Score, ScoredStrip, Stage, Strip

_UNSCORED = float("-inf")


def documents_to_refine(
    action: Action,
    documents: Sequence[Document],
    scores: Sequence[Score | None],
    thresholds: ActionThresholds,
    settings: RefinementSettings,
) -> tuple[Document, ...]:
    """The internal documents an action refines, in retrieval order; empty ones never.

    AMBIGUOUS refines all. CORRECT refines all (original), or those at or above the upper threshold,
    the best first up to `max_documents` (reproduction). INCORRECT drops them.
    """
    scored = [
        (score, -rank, document)
        for rank, (document, score) in enumerate(zip(documents, scores, strict=True))
        if score is not None
    ]
    match action:
        case Action.INCORRECT:
            scored = []
        case Action.AMBIGUOUS:
            pass
        case Action.CORRECT:
            if settings.correct_scope is CorrectScope.ABOVE_UPPER:
                scored = [entry for entry in scored if entry[0] >= thresholds.upper]
            scored = sorted(scored, key=lambda entry: entry[:2], reverse=True)
            scored = scored[: settings.max_documents]
    chosen = {document.id for _, _, document in scored}
    return tuple(document for document in documents if document.id in chosen)


@dataclass(frozen=True, slots=True)
class KnowledgeRefiner:
    """Refines documents into the strips worth answering from, with one evaluator call."""

    evaluator: Evaluator

    async def refine(
        self,
        ctx: RequestContext,
        stage: Stage,
        question: str,
        documents: Sequence[Document],
        document_scores: dict[str, Score],
        settings: RefinementSettings,
        recorder: Recorder,
    ) -> tuple[ScoredStrip, ...]:
        """The kept strips in the order of the settings.

        `document_scores` holds the scores already known, by document id; in mode `selection`, where
        the strip is the whole document, they are not computed again. Raises EvaluationFailed.
        """
        if not documents:
            return ()
        by_id = {document.id: document for document in documents}
        strips = await asyncio.to_thread(_decompose_all, documents, settings)
        if len(strips) > settings.max_strips_scored:
            recorder.degraded.append(strips_left_out(stage))
            strips = strips[: settings.max_strips_scored]
        known = document_scores if settings.mode is DecomposeMode.SELECTION else {}
        unknown = [strip for strip in strips if strip.document_id not in known]
        evaluation = await self.evaluator.evaluate(
            ctx,
            question,
            [Passage(strip.text, by_id[strip.document_id].title) for strip in unknown],
        )
        recorder.strips_scored += len(unknown)
        fresh = iter(evaluation.scores)
        scored = [
            ScoredStrip(strip, known[strip.document_id] if strip.document_id in known else next(fresh))
            for strip in strips
        ]
        kept = select(scored, settings, min_strip_score(evaluation, settings))
        recorder.fallbacks.pop(stage, None)
        if not kept and settings.fallback is StripFallback.BEST_DOCUMENT:
            recorder.fallbacks[stage] = settings.fallback.value
            kept = (
                await asyncio.to_thread(_best_document, documents, scored, document_scores, settings),
            )
        return recompose(kept, documents, settings.order)


def min_strip_score(evaluation: Evaluation, settings: RefinementSettings) -> float:
    """The strip threshold in force: the setting, else the evaluator's own."""
    if settings.strip_min_score is not None:
        return settings.strip_min_score
    return evaluation.strip_min_score


def _decompose_all(documents: Sequence[Document], settings: RefinementSettings) -> list[Strip]:
    """The strips of the documents, one more than may be scored at most; the rest is not even cut."""
    strips: list[Strip] = []
    for document in documents:
        strips += decompose(document, settings)
        if len(strips) > settings.max_strips_scored:
            break
    return strips


def _best_document(
    documents: Sequence[Document],
    strips: Sequence[ScoredStrip],
    document_scores: dict[str, Score],
    settings: RefinementSettings,
) -> ScoredStrip:
    """The best document as one strip; one not scored itself counts as its best strip does."""
    best = dict(document_scores)
    for scored in strips:
        if scored.score is not None and scored.strip.document_id not in document_scores:
            known = best.get(scored.strip.document_id, _UNSCORED)
            best[scored.strip.document_id] = max(known, scored.score)
    document = max(documents, key=lambda candidate: best.get(candidate.id, _UNSCORED))
    return ScoredStrip(excerpt(document, settings.max_document_words), best.get(document.id))
