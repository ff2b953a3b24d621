"""The last stage: a prompt within its budget, the completion streamed, the answer assembled.

One assembler for every pipeline, streamed or not, so that text and citations are always the same.
"""

from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from dataclasses import dataclass, field, replace

from crag_core.context import RequestContext
from crag_core.degrade import (
    NOT_ENOUGH_EVIDENCE,
    abstention,
    cut_prompt,
    less_after_gibberish,
)
from crag_core.errors import GenerationFailed, PromptTooLong, QualityBelowMinimum
from crag_core.gibberish import Gibberish, judged
from crag_core.prompts import FittedPrompt, PromptBuilder, answer_prompt, fit_prompt
from crag_core.protocols import Generator, TokenCounter
from crag_core.settings import CragSettings, GenerationSettings, NoEvidence
from crag_core.trace import Recorder
from crag_core.types import (
    Action,
    Answer,
    Citation,
    Completion,
    Document,
    EvidenceQuality,
    Knowledge,
    PipelineName,
    Question,
    Sampling,
    Stage,
    TokenUsage,
)

_RANK = {EvidenceQuality.NONE: 0, EvidenceQuality.WEAK: 1, EvidenceQuality.STRONG: 2}


@dataclass(frozen=True, slots=True)
class Evidence:
    """What a pipeline gathered for the generator; `documents` holds every cited one, by id."""

    pipeline: PipelineName
    knowledge: Knowledge = field(default_factory=Knowledge)
    documents: Mapping[str, Document] = field(default_factory=dict)
    action: Action | None = None
    quality: EvidenceQuality = EvidenceQuality.NONE
    without: NoEvidence = NoEvidence.ANSWER


@dataclass(frozen=True, slots=True)
class AnswerWriter:
    """Writes the answer from the evidence."""

    generator: Generator
    counter: TokenCounter

    async def write(
        self,
        ctx: RequestContext,
        question: Question,
        evidence: Evidence,
        settings: CragSettings,
        recorder: Recorder,
        compose: PromptBuilder = answer_prompt,
    ) -> AsyncGenerator[str | Answer]:
        """Pieces of text, then the Answer; `compose` writes the prompt.

        Raises QualityBelowMinimum or PromptTooLong before the first piece, and GenerationFailed.
        """
        fitted = fit_prompt(
            question, evidence.knowledge, evidence.documents, settings.generation, self.counter, compose
        )
        knowledge = fitted.knowledge
        _require_quality(_quality(evidence, knowledge), settings)
        recorder.degraded += cut_prompt(strips_cut=fitted.strips_cut, turns_cut=fitted.turns_cut)
        if not knowledge.strips and evidence.without is NoEvidence.ABSTAIN:
            recorder.degraded.append(abstention())
            yield NOT_ENOUGH_EVIDENCE
            yield _assemble(NOT_ENOUGH_EVIDENCE, "stop", knowledge, evidence, recorder)
            return
        with recorder.stage(Stage.GENERATE):
            attempts = 1
            try:
                completions = self._completion(ctx, fitted, settings.generation)
                if self._is_watched(fitted, settings.generation):
                    completions = await _begun(judged(completions))
            except Gibberish:
                attempts = 2
                recorder.degraded.append(less_after_gibberish())
                fitted = self._halved(question, fitted, evidence, settings.generation, compose)
                knowledge = fitted.knowledge
                completions = await _not_again(self._completion(ctx, fitted, settings.generation))
            pieces: list[str] = []
            ended: Completion | None = None
            async with aclosing(_trimmed(completions)) as trimmed:
                async for completion in trimmed:
                    if completion.finish_reason is not None:
                        ended = completion
                    if completion.text:
                        pieces.append(completion.text)
                        yield completion.text
            if ended is None:
                raise GenerationFailed("the generator stopped before it finished its completion")
        recorder.completed(ended.usage or TokenUsage(), attempts=attempts)
        reason = ended.finish_reason or "stop"
        yield _assemble("".join(pieces), reason, knowledge, evidence, recorder)

    def _completion(
        self, ctx: RequestContext, fitted: FittedPrompt, settings: GenerationSettings
    ) -> AsyncGenerator[Completion]:
        return self.generator.generate(ctx, fitted.prompt, _sampling(settings))

    def _is_watched(self, fitted: FittedPrompt, settings: GenerationSettings) -> bool:
        """Whether the prompt is so long that the model may fail on it."""
        limit = settings.watched_prompt_tokens
        return limit is not None and self.counter.count(fitted.prompt) >= limit

    def _halved(
        self,
        question: Question,
        fitted: FittedPrompt,
        evidence: Evidence,
        settings: GenerationSettings,
        compose: PromptBuilder,
    ) -> FittedPrompt:
        """A prompt of half the length, out of the best of the evidence.

        Raises GenerationFailed where the question alone is longer: it fitted, so it is not at fault.
        """
        budget = self.counter.count(fitted.prompt) // 2
        less = settings.model_copy(update={"prompt_token_budget": budget})
        try:
            return fit_prompt(
                question, fitted.knowledge, evidence.documents, less, self.counter, compose
            )
        except PromptTooLong as error:
            raise GenerationFailed(
                "the generator wrote gibberish, and the question alone is over half of its prompt"
            ) from error


async def _begun(completion: AsyncGenerator[Completion]) -> AsyncGenerator[Completion]:
    """A judged completion, its first piece there; raises Gibberish where that is none."""
    first = await anext(completion, None)

    async def whole() -> AsyncGenerator[Completion]:
        async with aclosing(completion):
            if first is not None:
                yield first
                async for piece in completion:
                    yield piece

    return whole()


async def _not_again(completion: AsyncGenerator[Completion]) -> AsyncGenerator[Completion]:
    """The second try; raises GenerationFailed where it is gibberish as well."""
    try:
        return await _begun(judged(completion))
    except Gibberish as error:
        raise GenerationFailed("the generator wrote gibberish, also on half the evidence") from error


async def _trimmed(completions: AsyncGenerator[Completion]) -> AsyncGenerator[Completion]:
    """The completion without the white space around its text, piece by piece."""
    started, held = False, ""
    async with aclosing(completions):
        async for completion in completions:
            text = held + completion.text
            if not started:
                text = text.lstrip()
            visible = text.rstrip()
            held = text[len(visible) :]
            started = started or bool(visible)
            yield Completion(visible, completion.finish_reason, completion.usage)


def _sampling(settings: GenerationSettings) -> Sampling:
    return Sampling(
        max_new_tokens=settings.max_new_tokens,
        temperature=settings.temperature,
        top_p=settings.top_p,
        stop=settings.stop,
        seed=settings.seed,
    )


def _quality(evidence: Evidence, knowledge: Knowledge) -> EvidenceQuality:
    """The quality of the evidence left in the prompt."""
    return evidence.quality if knowledge.strips else EvidenceQuality.NONE


def _require_quality(quality: EvidenceQuality, settings: CragSettings) -> None:
    if _RANK[quality] < _RANK[settings.min_quality]:
        raise QualityBelowMinimum(
            f"the evidence found is {quality}, below the min_quality {settings.min_quality} asked for"
        )


def _assemble(
    text: str, finish_reason: str, knowledge: Knowledge, evidence: Evidence, recorder: Recorder
) -> Answer:
    return Answer(
        text=text,
        pipeline=evidence.pipeline,
        action=evidence.action,
        evidence_quality=_quality(evidence, knowledge),
        degraded=tuple(recorder.degraded),
        citations=_citations(knowledge, evidence.documents),
        usage=replace(recorder.spent, search_calls=recorder.search_calls),
        trace=recorder.trace(knowledge),
        finish_reason=finish_reason,
    )


def _citations(knowledge: Knowledge, documents: Mapping[str, Document]) -> tuple[Citation, ...]:
    return tuple(
        Citation(
            index=index,
            document_id=scored.strip.document_id,
            title=documents[scored.strip.document_id].title,
            url=documents[scored.strip.document_id].url,
            revision=documents[scored.strip.document_id].revision,
            text=scored.strip.text,
            start=scored.strip.start,
            end=scored.strip.end,
            score=scored.score,
        )
        for index, scored in enumerate(knowledge.strips, start=1)
    )
