"""Knowledge searching: ask the sources in order, and choose among pages that share a name."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby

from crag_core.context import RequestContext
from crag_core.degrade import SEARCH_OUTAGES, older_copies, search_cut_short, without_search
from crag_core.errors import CragError
from crag_core.protocols import Evaluator, Searcher
from crag_core.queries.plan import Sought
from crag_core.settings import ActionThresholds, SearchingSettings
from crag_core.trace import Recorder
from crag_core.types import Document, FoundPage, Passage, Question, Score, Stage, Strategy

_HINT_CHARACTERS = 500
_MOST_HINTS = 20
_LEAD_CHARACTERS = 1_000


@dataclass(frozen=True, slots=True)
class Searched:
    """The pages that a search chose, the source that found them, and why others were not asked.

    `source` is `None` when every source was down.
    """

    pages: tuple[FoundPage, ...] = ()
    source: Searcher | None = None
    outages: tuple[CragError, ...] = ()

    @property
    def documents(self) -> list[Document]:
        """The pages chosen, as documents."""
        return [page.document for page in self.pages]


@dataclass(frozen=True, slots=True)
class KnowledgeSearch:
    """Searches `searchers` in order of preference: the next is asked only when one is down."""

    searchers: Sequence[Searcher]
    evaluator: Evaluator
    settings: SearchingSettings

    async def search(
        self,
        ctx: RequestContext,
        sought: Sought,
        recorder: Recorder,
        *,
        limit: int,
        thresholds: ActionThresholds | None = None,
    ) -> Searched:
        """The pages to read for what is sought, at most `limit`; an outage degrades to the next source.

        `thresholds` override those of the evaluator. Raises EvaluationFailed.
        """
        outages: list[CragError] = []
        for searcher in self.searchers:
            recorder.search_calls += 1
            try:
                with recorder.stage(Stage.SEARCH):
                    result = await searcher.search(ctx, sought, limit=limit)
            except SEARCH_OUTAGES as outage:
                recorder.degraded.append(without_search(outage))
                outages.append(outage)
                continue
            recorder.degraded += search_cut_short(result.cut_short)
            recorder.degraded += older_copies(page.document for page in result.pages)
            contested = _contested(result.pages)
            scores: dict[str, Score] = {}
            margin = 0.0
            if contested:
                with recorder.stage(Stage.REFINE_EXTERNAL):
                    scores, margin = await self._scores(ctx, sought.text, contested, thresholds)
            chosen = choose_among_namesakes(result.pages, scores, margin)[:limit]
            recorder.searched(result, chosen, scores)
            return Searched(chosen, searcher, tuple(outages))
        return Searched(outages=tuple(outages))

    async def _scores(
        self,
        ctx: RequestContext,
        question: str,
        pages: Sequence[FoundPage],
        thresholds: ActionThresholds | None,
    ) -> tuple[dict[str, Score], float]:
        """Scores by document id, and the margin: a share of the way between the thresholds."""
        leads = [Passage(page.document.text[:_LEAD_CHARACTERS], page.document.title) for page in pages]
        evaluation = await self.evaluator.evaluate(ctx, question, leads)
        scores = {
            page.document.id: score
            for page, score in zip(pages, evaluation.scores, strict=True)
            if score is not None
        }
        limits = thresholds or evaluation.thresholds
        return scores, self.settings.same_name_margin * (limits.upper - limits.lower)


def sought_for(question: Question, documents: Sequence[Document]) -> Sought:
    """What is searched for a question; the retrieved documents may hint at which of a name is meant."""
    hints = [f"{document.title}\n{document.text[:_HINT_CHARACTERS]}" for document in documents]
    return Sought(
        question.text, task=question.task, choices=question.choices, hints=tuple(hints[:_MOST_HINTS])
    )


def choose_among_namesakes(
    pages: Sequence[FoundPage], scores: Mapping[str, Score], margin: float
) -> tuple[FoundPage, ...]:
    """Of the pages that share an ambiguous name, the best by score and those within `margin` of it.

    Pages that share none stay, after them. Without scores the order of the search decides.
    """
    chosen: list[FoundPage] = []
    for _, namesakes in _by_name(pages):
        best = max(scores.get(page.document.id, float("-inf")) for page in namesakes)
        kept = [page for page in namesakes if scores.get(page.document.id, best) >= best - margin]
        kept.sort(key=lambda page: scores.get(page.document.id, best), reverse=True)
        chosen += kept
    return (*chosen, *(page for page in pages if page.strategy is not Strategy.DISAMBIGUATION))


def _contested(pages: Sequence[FoundPage]) -> list[FoundPage]:
    groups = (namesakes for _, namesakes in _by_name(pages))
    return [page for namesakes in groups if len(namesakes) > 1 for page in namesakes]


def _by_name(pages: Sequence[FoundPage]) -> list[tuple[str, list[FoundPage]]]:
    shared = [page for page in pages if page.strategy is Strategy.DISAMBIGUATION]
    shared.sort(key=lambda page: page.query.entity)
    return [(name, list(group)) for name, group in groupby(shared, lambda page: page.query.entity)]
