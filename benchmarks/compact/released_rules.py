"""The rules of the released code, to be measured against: what a hop asks, finds and reads.

One reference, the first, or the item before where there are several; pairs told apart by question
text alone; three of them; and the extractor is asked the sub-question as it was written.
"""

from dataclasses import dataclass, replace

from crag_core.compact.grounding import ground_by_rule, ground_marks
from crag_core.compact.protocols import AnswerExtractor, QARetriever
from crag_core.compact.types import Plan, Reading, ResolvedHop, ScoredPair
from crag_core.context import RequestContext

_TOP_K = 3
_FETCHED_PER_PAIR = 10


@dataclass(frozen=True, slots=True)
class ReleasedRules:
    """Resolves a plan item by item, in list order, comparisons too."""

    pairs: QARetriever
    extractor: AnswerExtractor

    async def resolve(self, ctx: RequestContext, plan: Plan) -> tuple[ResolvedHop, ...]:
        """One hop per sub-question."""
        hops: list[ResolvedHop] = []
        for position, sub_question in enumerate(plan.sub_questions):
            references = sub_question.references
            parent = references[0] if len(references) == 1 else max(position - 1, 0)
            asked = sub_question.text
            if references and parent < len(hops):
                answer = hops[parent].answer or ""
                text, left = ground_marks(replace(sub_question, references=(parent,)), {parent: answer})
                asked = ground_by_rule(text, left) if answer else text
            (found,) = await self.pairs.retrieve_pairs(ctx, [asked], limit=_TOP_K * _FETCHED_PER_PAIR)
            by_question: dict[str, ScoredPair] = {}
            for pair in found:
                by_question.setdefault(pair.pair.question, pair)
            kept = tuple(by_question.values())[:_TOP_K]
            (read,) = await self.extractor.extract(ctx, [Reading(sub_question.text, kept)])
            hops.append(ResolvedHop(sub_question, position, asked, kept, read.text if read else None))
        return tuple(hops)
