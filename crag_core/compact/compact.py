"""CompactRAG: decompose, resolve without a language model, synthesise; two completions in all."""

from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import dataclass, replace

from crag_core.compact.callers_documents import CallersDocuments
from crag_core.compact.decomposition import decomposition_prompt, plan_sampling
from crag_core.compact.plan import normalise_plan
from crag_core.compact.resolution import Resolver, traced
from crag_core.compact.settings import CompactSettings
from crag_core.compact.synthesis import SynthesisPrompt, facts
from crag_core.compact.types import Plan
from crag_core.context import RequestContext
from crag_core.degrade import abstention, malformed_plan, plan_cut
from crag_core.errors import GenerationFailed, MalformedCompletion
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
_RETRY_TEMPERATURE = 0.5


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
        RetrievalFailed, StageFailed, GenerationFailed, PromptTooLong, and MalformedCompletion where the
        synthesis says nothing, also when asked again.
        """
        settings = self.crag.with_options(ask.options, ask.sampling)
        recorder = Recorder()
        with recorder.stage(Stage.DECOMPOSE):
            plan = await self._plan(ctx, ask, recorder)
        chosen = self.settings.with_retrieve_limit(ask.options.retrieve_limit)
        resolver = replace(self.resolver, settings=chosen)
        if ask.documents is not None:
            limit = settings.refinement.max_strips_scored
            read = await CallersDocuments.read(ask.documents, limit, recorder)
            resolver = read.in_place_of_pairs(resolver)
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
        writer = replace(self.writer, generator=_Speaking(self.writer.generator, recorder))
        async with aclosing(
            writer.write(ctx, ask.question, evidence, settings, recorder, synthesis)
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


@dataclass(frozen=True, slots=True)
class _Speaking:
    """A `Generator` whose completions say something: one that is blank is asked for once more."""

    generator: Generator
    recorder: Recorder

    async def generate(
        self, ctx: RequestContext, prompt: Prompt, sampling: Sampling
    ) -> AsyncGenerator[Completion]:
        """As the generator, but for a blank beginning held back; raises MalformedCompletion.

        Where the caller names texts that end it, a blank completion is what was asked for.
        """
        if sampling.stop:
            tries = [sampling]
        else:  # a greedy completion would only repeat itself
            warmer = max(sampling.temperature, _RETRY_TEMPERATURE)
            tries = [sampling, replace(sampling, temperature=warmer)]
        for each in tries:
            held: list[Completion] = []
            says_something = bool(sampling.stop)
            async with aclosing(self.generator.generate(ctx, prompt, each)) as completion:
                async for piece in completion:
                    held.append(piece)
                    says_something = says_something or bool(piece.text.strip())
                    if says_something:
                        for part in held:
                            yield part
                        held.clear()
            if says_something:
                return
            self.recorder.attempt_failed()
        raise MalformedCompletion("the generator wrote an empty answer, also when it was asked again")


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
