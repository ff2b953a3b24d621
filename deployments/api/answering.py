"""What both answer routes do: make the Ask, set the deadline, and read the answer in time."""

import asyncio
import re
import time
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass
from functools import partial

from starlette.requests import Request

from crag_core.context import Lane, RequestContext
from crag_core.errors import (
    GenerationFailed,
    PipelineNotConfigured,
    StageTimedOut,
    StageUnavailable,
)
from crag_core.protocols import Ask, Pipeline
from crag_core.settings import AnswerOptions, SamplingOptions
from crag_core.types import (
    Answer,
    Choice,
    Document,
    DocumentSource,
    PipelineName,
    Question,
    Turn,
)
from deployments.admission.admission import Admission
from deployments.admission.demand import Demand, seconds_by_stage
from deployments.admission.gate import Gate
from deployments.api.observing import CLIENT_GONE, Observation, observation_of
from deployments.api.schemas.answer import AnswerHeaders, AskFields
from deployments.api.sizes import check_documents, check_question
from deployments.settings import ApiSettings

_TRACEPARENT = re.compile(r"[0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}")


@dataclass(frozen=True, slots=True)
class Conversation:
    """The question of a request, and what was said before it; `field` is where the text stood."""

    text: str
    field: str = "question"
    system: tuple[str, ...] = ()
    history: tuple[Turn, ...] = ()


@dataclass(frozen=True, slots=True)
class Answering:
    """The pipelines that this application has, each asked within limits and in time."""

    pipelines: Mapping[PipelineName, Pipeline]
    settings: ApiSettings
    admission: Admission

    def stream(
        self,
        request: Request,
        headers: AnswerHeaders,
        fields: AskFields,
        ask: Ask,
        pipeline: PipelineName,
        *,
        is_shown: bool = False,
    ) -> AsyncGenerator[str | Answer]:
        """Pieces of the answer, then the Answer; close it to stop the work.

        `is_shown`: the client sees the pieces as they come. Where it does not, an answer that is lost
        half-way is begun again.
        Raises PipelineNotConfigured at once; with the first piece Overloaded, before anything is
        started; later StageTimedOut or what the pipeline raises.
        """
        observation, lane = observation_of(request), Lane(fields.lane)
        observation.lane, observation.question = lane, ask.question.text
        if pipeline not in self.pipelines:
            raise PipelineNotConfigured(
                f"pipeline {pipeline} is not configured here: choose one of {', '.join(self.pipelines)}"
            )
        observation.pipeline = pipeline
        ctx = request_context(request, headers, self.settings, fields.timeout_s, lane)
        demand = self.admission.costs.of_answer(ask, pipeline)
        begin = partial(self.pipelines[pipeline].stream, ctx, ask)
        pieces = begin() if is_shown else _begun_again(begin)
        return _admitted(self.admission.gate, demand, ctx, pieces, observation)


def ask_of(
    conversation: Conversation,
    fields: AskFields,
    options: AnswerOptions,
    settings: ApiSettings,
    sampling: SamplingOptions | None = None,
    *,
    at: str = "",
) -> Ask:
    """The core's form of a request whose fields stand at the path `at`; refuses what is too long."""
    check_question(conversation.text, settings, field=conversation.field)
    if fields.documents:
        limit = settings.max_documents
        check_documents(fields.documents, settings, max_documents=limit, field=f"{at}documents")
    return Ask(
        question=Question(
            text=conversation.text,
            task=fields.task,
            choices=tuple(Choice(choice.label, choice.text) for choice in fields.choices),
            system=conversation.system,
            history=conversation.history,
        ),
        documents=_caller_documents(fields),
        options=options,
        sampling=sampling or SamplingOptions(),
    )


async def finished(stream: AsyncGenerator[str | Answer]) -> Answer:
    """The Answer at the end of a stream."""
    async with aclosing(stream):
        answers = [piece async for piece in stream if isinstance(piece, Answer)]
    return answers[-1]


def request_context(
    request: Request,
    headers: AnswerHeaders,
    settings: ApiSettings,
    timeout_s: float | None = None,
    lane: Lane = Lane.INTERACTIVE,
) -> RequestContext:
    """The context of a request: the smaller time limit given, else the default, up to the maximum."""
    given = [limit for limit in (timeout_s, headers.x_crag_timeout_s) if limit is not None]
    traceparent = headers.traceparent or ""
    return RequestContext.starting_now(
        request.state.request_id,
        min(*(given or [settings.default_timeout_s]), settings.max_timeout_s),
        lane,
        traceparent if _TRACEPARENT.fullmatch(traceparent) else None,
    )


@asynccontextmanager
async def before_deadline(ctx: RequestContext) -> AsyncIterator[None]:
    """Cancel the body once the request's deadline has passed, and raise StageTimedOut."""
    try:
        async with asyncio.timeout(ctx.remaining_s()) as limit:
            yield
    except TimeoutError:
        if not limit.expired():
            raise
        raise StageTimedOut(
            "there was no answer before the request's deadline: allow it more time"
        ) from None


def _caller_documents(fields: AskFields) -> tuple[Document, ...] | None:
    if fields.documents is None:
        return None
    return tuple(
        Document(
            id=f"document-{position}",
            text=document.text,
            title=document.title,
            source=DocumentSource.CALLER,
            url=document.url,
        )
        for position, document in enumerate(fields.documents)
    )


async def _begun_again(
    begin: Callable[[], AsyncGenerator[str | Answer]],
) -> AsyncGenerator[str | Answer]:
    """The pieces; where a stage is lost after the first of them, all of them once more."""
    has_begun = False
    try:
        async with aclosing(begin()) as pieces:
            async for piece in pieces:
                has_begun = True
                yield piece
        return
    except StageUnavailable:
        if not has_begun:  # the clients have tried again by themselves
            raise
    async with aclosing(begin()) as pieces:
        async for piece in pieces:
            yield piece


async def _admitted(
    gate: Gate,
    demand: Demand,
    ctx: RequestContext,
    pieces: AsyncGenerator[str | Answer],
    observation: Observation,
) -> AsyncGenerator[str | Answer]:
    """The pieces of an answer that the gate lets in; it learns from the trace what the answer took."""
    started_s = time.monotonic()
    with gate.admitted(ctx, demand) as ticket:
        async with aclosing(_in_time(ctx, pieces, observation)) as timely:
            async for piece in timely:
                if isinstance(piece, Answer):
                    took_s = time.monotonic() - started_s
                    ticket.took(seconds_by_stage(piece.trace.stages, took_s))
                yield piece


async def _in_time(
    ctx: RequestContext, pieces: AsyncGenerator[str | Answer], observation: Observation
) -> AsyncGenerator[str | Answer]:
    """The deadline holds for each step, since another task than the first may resume the generator."""
    try:
        async with aclosing(pieces):
            while True:
                async with before_deadline(ctx):
                    piece = await anext(pieces, None)
                if piece is None:
                    break
                observation.saw(piece)
                yield piece
                if isinstance(piece, Answer):
                    return
    except (asyncio.CancelledError, GeneratorExit):
        observation.outcome = CLIENT_GONE
        raise
    if observation.answer is None:
        raise GenerationFailed("the pipeline ended without an answer")
