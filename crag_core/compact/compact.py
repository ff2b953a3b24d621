"""CompactRAG: decompose, resolve without a language model, synthesise; two completions in all."""

from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import dataclass

from crag_core.compact.callers_documents import CallersDocuments
from crag_core.compact.decomposition import decomposition_prompt, plan_sampling
from crag_core.compact.plan import normalise_plan
from crag_core.compact.resolution import Resolver, traced
from crag_core.compact.settings import CompactSettings
from crag_core.compact.synthesis import SynthesisPrompt, facts
from crag_core.compact.types import Plan
from crag_core.context import RequestContext
from crag_core.degrade import abstention, malformed_plan, plan_cut
from crag_core.errors import GenerationFailed
from crag_core.generation import AnswerWriter, Evidence
from crag_core.protocols import Ask, Generator
from crag_core.settings import CragSettings, NoEvidence
from crag_core.trace import Recorder
from crag_core.types import (
    Answer,
    Completion,
    EvidenceQuality,
    PipelineName,
    Prompt,
    Sampling,
    Stage,
    TokenUsage,
)

_PLAN_ATTEMPTS = 2


@dataclass(frozen=True, slots=True)
class Compact:
    """Multi-hop answers from a base of atomic pairs, at two completions for any number of hops."""

    resolver: Resolver
    writer: AnswerWriter
    settings: CompactSettings
    crag: CragSettings

    async def stream(self, ctx: RequestContext, ask: Ask) -> AsyncGenerator[str | Answer]:
        """Pieces of the synthesis, then the Answer.

        A plan that cannot be read degrades to the question itself as the only hop. Raises
        RetrievalFailed, StageFailed, GenerationFailed and PromptTooLong.
        """
        settings = self.crag.with_options(ask.options, ask.sampling)
        recorder = Recorder()
        with recorder.stage(Stage.DECOMPOSE):
            plan = await self._plan(ctx, ask, recorder)
        resolver = self.resolver
        if ask.documents is not None:
            resolver = CallersDocuments(ask.documents).in_place_of_pairs(resolver)
        hops = await resolver.resolve(ctx, plan, recorder)
        recorder.hops = traced(hops)
        knowledge, documents = facts(hops)
        if not knowledge.strips:
            recorder.degraded.append(abstention())
        evidence = Evidence(
            pipeline=PipelineName.COMPACT,
            knowledge=knowledge,
            documents=documents,
            quality=EvidenceQuality.WEAK,
            without=NoEvidence.ANSWER,
        )
        synthesis = SynthesisPrompt(hops, must_answer=settings.no_evidence is NoEvidence.ANSWER)
        async with aclosing(
            self.writer.write(ctx, ask.question, evidence, settings, recorder, synthesis)
        ) as pieces:
            async for piece in pieces:
                yield piece

    async def _plan(self, ctx: RequestContext, ask: Ask, recorder: Recorder) -> Plan:
        prompt = decomposition_prompt(ask.question.text)
        sampling = plan_sampling(self.settings)
        written = await completed(ctx, self.writer.generator, prompt, sampling, recorder)
        plan = normalise_plan(written, ask.question.text, self.settings.limits)
        if plan.is_malformed:
            recorder.degraded.append(malformed_plan())
        if plan.was_cut:
            recorder.degraded.append(plan_cut())
        return plan


async def completed(
    ctx: RequestContext,
    generator: Generator,
    prompt: Prompt,
    sampling: Sampling,
    recorder: Recorder,
    attempts: int = _PLAN_ATTEMPTS,
) -> str:
    """The text of one whole completion; a generator that fails is asked once more.

    Raises GenerationFailed, PromptTooLong, and what else the generator raises.
    """
    for attempt in range(1, attempts + 1):
        try:
            text, usage = await _collected(generator.generate(ctx, prompt, sampling))
        except GenerationFailed:
            if attempt == attempts:
                raise
        else:
            recorder.completed(usage, attempts=attempt)
            return text
    raise AssertionError("at least one attempt is made")


async def _collected(completion: AsyncGenerator[Completion]) -> tuple[str, TokenUsage]:
    pieces: list[str] = []
    async with aclosing(completion):
        async for piece in completion:
            pieces.append(piece.text)
            if piece.finish_reason is not None:
                return "".join(pieces), piece.usage or TokenUsage()
    raise GenerationFailed("the generator stopped before it finished its completion")
