"""Corrective retrieval augmented generation: retrieve, evaluate, trigger, gather, generate."""

from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field

from crag_core.actions import trigger_action
from crag_core.context import RequestContext
from crag_core.degrade import Ladder, Paces
from crag_core.errors import StageTimedOut
from crag_core.gathering import Gathering
from crag_core.generation import AnswerWriter
from crag_core.protocols import Ask, Evaluator, Retriever, Searcher
from crag_core.refinement import min_strip_score
from crag_core.settings import CragSettings
from crag_core.speculation import QueueDelay
from crag_core.trace import Recorder
from crag_core.types import Answer, Document, Stage


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
    paces: Paces = field(default_factory=Paces)

    async def stream(self, ctx: RequestContext, ask: Ask) -> AsyncGenerator[str | Answer]:
        """Pieces of the answer, then the Answer.

        Raises the errors of its stages. A search outage degrades the answer instead, and so does a
        deadline too close for every stage: `degrade.py` says how.
        """
        settings = self.settings.with_options(ask.options, ask.sampling)
        recorder, ladder = Recorder(paces=self.paces), Ladder(ctx, self.paces)
        documents = await retrieve(ctx, ask, self.retriever, settings.retrieve_limit, recorder)
        gathering = Gathering(self.evaluator, self.searchers, ladder, ask, settings, recorder, documents)
        async with gathering.begin_ahead(self.queue_delay) as ahead:
            try:
                evaluation = await gathering.evaluate()
            except StageTimedOut as error:
                ladder.go_on_after(error)
                evidence = await gathering.unevaluated()
            else:
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
