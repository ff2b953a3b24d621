"""Knowledge refinement: decompose documents, score their strips, keep and recompose the best."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from crag_core.context import RequestContext
from crag_core.degrade import TOO_LATE, Ladder, fewer_strips, strips_left_out, top_document_only
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
class KnownScores:
    """What is known of a question's documents before they are refined, and is not computed again."""

    documents: Mapping[str, Score] = field(default_factory=dict)
    """By document id."""
    strips: Mapping[Strip, Score | None] = field(default_factory=dict)
    strip_min_score: float | None = None
    """The evaluator's strip threshold, from the evaluation that the scores came with."""

    def with_strips(self, ahead: "KnownScores | None") -> "KnownScores":
        """These documents' scores with strips scored ahead, and the threshold that came with those."""
        return self if ahead is None else replace(ahead, documents=self.documents)

    def of(self, strip: Strip, mode: DecomposeMode) -> tuple[bool, Score | None]:
        """Whether a strip's score is known, and which; in mode `selection` it is its document's."""
        if mode is DecomposeMode.SELECTION and strip.document_id in self.documents:
            return True, self.documents[strip.document_id]
        return strip in self.strips, self.strips.get(strip)


@dataclass(frozen=True, slots=True)
class KnowledgeRefiner:
    """Refines documents into the strips worth answering from, with one evaluator call at most."""

    evaluator: Evaluator
    settings: RefinementSettings

    async def score_ahead(
        self, ctx: RequestContext, question: str, documents: Sequence[Document]
    ) -> KnownScores:
        """The scores of all strips of the documents, for a refinement that may follow."""
        strips = await asyncio.to_thread(decompose_all, documents, self.settings)
        strips = strips[: self.settings.max_strips_scored]
        evaluation = await self._evaluate(ctx, question, documents, strips)
        scores = dict(zip(strips, evaluation.scores, strict=True))
        return KnownScores(strips=scores, strip_min_score=evaluation.strip_min_score)

    async def refine(
        self,
        ladder: Ladder,
        stage: Stage,
        question: str,
        documents: Sequence[Document],
        known: KnownScores,
        recorder: Recorder,
    ) -> tuple[ScoredStrip, ...]:
        """The kept strips in the order of the settings; raises EvaluationFailed.

        Where the time is short, fewer strips are scored, or the best document stands for them.
        """
        if not documents:
            return ()
        settings = self.settings
        strips = await asyncio.to_thread(decompose_all, documents, settings)
        if len(strips) > settings.max_strips_scored:
            recorder.degraded.append(strips_left_out(stage))
            strips = strips[: settings.max_strips_scored]
        recorder.fallbacks.pop(stage, None)
        try:
            scores, minimum = await self._scores(
                ladder, stage, question, documents, strips, known, recorder
            )
        except TOO_LATE as error:
            ladder.go_on_after(error)
            recorder.degraded.append(top_document_only(stage))
            return (await self._best(documents, (), known),)
        scored = [ScoredStrip(strip, scores[strip]) for strip in strips if strip in scores]
        kept = select(scored, settings, minimum)
        if not kept and settings.fallback is StripFallback.BEST_DOCUMENT:
            recorder.fallbacks[stage] = settings.fallback.value
            kept = (await self._best(documents, scored, known),)
        return recompose(kept, documents, settings.order)

    async def _best(
        self, documents: Sequence[Document], scored: Sequence[ScoredStrip], known: KnownScores
    ) -> ScoredStrip:
        return await asyncio.to_thread(_best_document, documents, scored, known.documents, self.settings)

    async def _scores(
        self,
        ladder: Ladder,
        stage: Stage,
        question: str,
        documents: Sequence[Document],
        strips: Sequence[Strip],
        known: KnownScores,
        recorder: Recorder,
    ) -> tuple[Mapping[Strip, Score | None], float]:
        """The strips' scores, of all that can be scored in time, and the threshold for them."""
        scores: dict[Strip, Score | None] = {}
        unknown: list[Strip] = []
        for strip in strips:
            is_known, score = known.of(strip, self.settings.mode)
            if is_known:
                scores[strip] = score
                recorder.strips_scored += strip in known.strips
            else:
                unknown.append(strip)
        own_minimum = known.strip_min_score
        if unknown or own_minimum is None:
            chosen = _first_in_time(unknown, known, ladder)
            if len(chosen) < len(unknown):
                recorder.degraded.append(fewer_strips(stage))
            evaluation = await self._evaluate(ladder.before_generating, question, documents, chosen)
            scores.update(zip(chosen, evaluation.scores, strict=True))
            own_minimum = evaluation.strip_min_score
            recorder.strips_scored += len(chosen)
        return scores, min_strip_score(own_minimum, self.settings)

    async def _evaluate(
        self,
        ctx: RequestContext,
        question: str,
        documents: Sequence[Document],
        strips: Sequence[Strip],
    ) -> Evaluation:
        titles = {document.id: document.title for document in documents}
        passages = [Passage(strip.text, titles[strip.document_id]) for strip in strips]
        return await self.evaluator.evaluate(ctx, question, passages)


def min_strip_score(evaluators_own: float, settings: RefinementSettings) -> float:
    """The strip threshold in force: the setting, else the evaluator's own."""
    return evaluators_own if settings.strip_min_score is None else settings.strip_min_score


def decompose_all(documents: Sequence[Document], settings: RefinementSettings) -> list[Strip]:
    """The strips of the documents, one more than may be scored at most; the rest is not even cut."""
    strips: list[Strip] = []
    for document in documents:
        strips += decompose(document, settings)
        if len(strips) > settings.max_strips_scored:
            break
    return strips


def _first_in_time(strips: Sequence[Strip], known: KnownScores, ladder: Ladder) -> Sequence[Strip]:
    """The strips that can be scored in time, those of the best documents before others; one at least."""
    by_document = sorted(
        strips, key=lambda strip: known.documents.get(strip.document_id, _UNSCORED), reverse=True
    )
    affordable = max(1, ladder.strips_in_time([len(strip.text) for strip in by_document]))
    return strips if affordable >= len(strips) else by_document[:affordable]


def _best_document(
    documents: Sequence[Document],
    strips: Sequence[ScoredStrip],
    document_scores: Mapping[str, Score],
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
