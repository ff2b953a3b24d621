"""Resolution: the sub-questions of a plan, level by level, each stage called once a level.

ground -> rewrite -> retrieve pairs -> extract. No language model takes part.
"""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from crag_core.compact.grounding import ground_by_rule, ground_marks, is_clean, is_faithful
from crag_core.compact.protocols import AnswerExtractor, QARetriever, SubQuestionRewriter
from crag_core.compact.references import described, has_anaphor
from crag_core.compact.selection import select_pairs
from crag_core.compact.settings import CompactSettings
from crag_core.compact.types import (
    AtomicQA,
    ExtractedAnswer,
    Plan,
    Reading,
    ResolvedHop,
    Rewriting,
    ScoredPair,
    SubQuestion,
)
from crag_core.context import RequestContext
from crag_core.degrade import passages_instead, unresolved_hop
from crag_core.protocols import Retriever
from crag_core.strips import excerpt
from crag_core.trace import Recorder
from crag_core.types import Document, Hop, ScoredDocument, Stage

_RETRIEVED_PER_PAIR = 5


@dataclass(frozen=True, slots=True)
class Resolver:
    """Resolves plans; `passages` are read where no pair is close enough to a sub-question."""

    pairs: QARetriever
    rewriter: SubQuestionRewriter
    extractor: AnswerExtractor
    settings: CompactSettings
    passages: Retriever | None = None

    async def resolve(
        self, ctx: RequestContext, plan: Plan, recorder: Recorder
    ) -> tuple[ResolvedHop, ...]:
        """One hop per sub-question, in the plan's order; raises RetrievalFailed and StageFailed."""
        hops: dict[int, ResolvedHop] = {}
        for number, level in enumerate(plan.levels):
            asked = await self._grounded(
                ctx, [plan.sub_questions[place] for place in level], hops, recorder
            )
            found = await self._found(ctx, asked, self._pairs_per_hop(plan), recorder)
            answers = await self._read(ctx, asked, found, recorder)
            for place, question, pairs, answer in zip(level, asked, found, answers, strict=True):
                sub_question = plan.sub_questions[place]
                hops[place] = ResolvedHop(sub_question, number, question, pairs, answer)
        for place, sub_question in enumerate(plan.sub_questions):
            if place not in hops:
                text = _marks_filled(sub_question, _stand_ins(hops))
                hops[place] = ResolvedHop(sub_question, None, text)
        return tuple(hops[place] for place in range(len(plan.sub_questions)))

    async def _grounded(
        self,
        ctx: RequestContext,
        sub_questions: Sequence[SubQuestion],
        hops: Mapping[int, ResolvedHop],
        recorder: Recorder,
    ) -> list[str]:
        """The texts to ask: marks filled, words that point back resolved by the rewriter or by rule.

        The rewriter is asked only where an answer was found for it, and there is one place for it.
        """
        stand_ins = _stand_ins(hops)
        marked = [ground_marks(sub_question, stand_ins) for sub_question in sub_questions]
        texts = [ground_by_rule(text, entities) for text, entities in marked]
        rewritings = {
            position: Rewriting(text, entities[0])
            for position, ((text, entities), sub) in enumerate(zip(marked, sub_questions, strict=True))
            if len(entities) == 1
            and has_anaphor(text)
            and all(hops[place].answer is not None for place in sub.references if place in hops)
        }
        if rewritings:
            with recorder.stage(Stage.REWRITE):
                rewritten = await self.rewriter.rewrite(ctx, list(rewritings.values()))
            for (position, rewriting), text in zip(rewritings.items(), rewritten, strict=True):
                if text is not None and is_faithful(rewriting, text):
                    texts[position] = text
        return texts

    async def _found(
        self, ctx: RequestContext, asked: Sequence[str], limit: int, recorder: Recorder
    ) -> list[tuple[ScoredPair, ...]]:
        with recorder.stage(Stage.RETRIEVE_PAIRS):
            found = [
                select_pairs(query, pairs, limit)
                for query, pairs in zip(
                    asked,
                    await self.pairs.retrieve_pairs(ctx, asked, limit=limit * _RETRIEVED_PER_PAIR),
                    strict=True,
                )
            ]
        far = [
            position
            for position, pairs in enumerate(found)
            if max((pair.score for pair in pairs), default=-1.0) < self.settings.min_pair_score
        ]
        if self.passages is not None and self.settings.fallback_passages and far:
            with recorder.stage(Stage.RETRIEVE):
                read = await asyncio.gather(*(self._passages(ctx, asked[place]) for place in far))
            for position, passages in zip(far, read, strict=True):
                if passages:
                    found[position] = passages
                    recorder.took_once(passages_instead())
        return found

    def _pairs_per_hop(self, plan: Plan) -> int:
        """A question's evidence is of one size, whatever its hops; each hop has its least."""
        hops = sum(len(level) for level in plan.levels)
        return max(self.settings.pairs_per_hop, self.settings.pairs_per_question // hops)

    async def _passages(self, ctx: RequestContext, query: str) -> tuple[ScoredPair, ...]:
        """Passages of the corpus in the form of pairs: the title as question, the text as answer."""
        assert self.passages is not None
        limit = self.settings.fallback_passages
        documents = await self.passages.retrieve(ctx, query, limit=limit)
        return tuple(
            ScoredPair(passage_as_pair(document, self.settings.max_passage_words), 0.0)
            for document in documents
            if document.text.strip()
        )

    async def _read(
        self,
        ctx: RequestContext,
        asked: Sequence[str],
        found: Sequence[tuple[ScoredPair, ...]],
        recorder: Recorder,
    ) -> list[str | None]:
        places = [position for position, pairs in enumerate(found) if pairs]
        answers: list[str | None] = [None] * len(asked)
        if places:
            with recorder.stage(Stage.EXTRACT):
                extracted = await self.extractor.extract(
                    ctx, [Reading(asked[place], found[place]) for place in places]
                )
            for position, answer in zip(places, extracted, strict=True):
                answers[position] = _usable(answer)
        if None in answers:
            recorder.took_once(unresolved_hop())
        return answers


def passage_as_pair(document: Document, max_words: int) -> AtomicQA:
    """A passage, cut to so many words, in the form of a pair."""
    strip = excerpt(document, max_words)
    return AtomicQA(
        document.id, document.title, strip.text, document.id, document.title, document.url, strip
    )


def traced(hops: Sequence[ResolvedHop]) -> tuple[Hop, ...]:
    """The hops as a trace shows them."""
    return tuple(
        Hop(
            question=hop.sub_question.text,
            references=hop.sub_question.references,
            level=hop.level,
            asked=hop.asked,
            answer=hop.answer,
            found=tuple(
                ScoredDocument(
                    found.pair.strip.document_id, found.pair.title, found.score, truncated=False
                )
                for found in hop.found
            ),
        )
        for hop in hops
    )


def _usable(answer: ExtractedAnswer | None) -> str | None:
    if answer is None or not is_clean(answer.text):
        return None
    return " ".join(answer.text.split())


def _stand_ins(hops: Mapping[int, ResolvedHop]) -> dict[int, str]:
    """What stands for each resolved hop in later questions: its answer, else what it asked after."""
    return {place: hop.answer or described(hop.asked) for place, hop in hops.items()}


def _marks_filled(sub_question: SubQuestion, stand_ins: Mapping[int, str]) -> str:
    text, _ = ground_marks(sub_question, stand_ins)
    return text
