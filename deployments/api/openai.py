"""The OpenAI route: chat completions whose model is a pipeline."""

import time
from collections.abc import Sequence
from typing import Annotated, Any, TypeVar

from fastapi import APIRouter, Header, Request

from crag_core.errors import PipelineNotConfigured
from crag_core.protocols import Ask
from crag_core.settings import SamplingOptions
from crag_core.types import PipelineName, Turn
from deployments.api import routes
from deployments.api.answering import Answering, Conversation, ask_of, finished
from deployments.api.errors import documented, refused
from deployments.api.native import ANSWER_ERRORS
from deployments.api.observing import observation_of
from deployments.api.openai_reply import EVENT_STREAM, EventStream, Reply, events
from deployments.api.schemas.answer import AnswerHeaders
from deployments.api.schemas.openai import (
    ChatCompletion,
    ChatMessage,
    ChatRequest,
    Model,
    ModelList,
)
from deployments.api.sizes import check_characters
from deployments.settings import ApiSettings

Value = TypeVar("Value")

_STREAMED: dict[int | str, dict[str, Any]] = {
    200: {
        "description": "The completion; with `stream`, its chunks as server-sent events: the role, "
        "the text in pieces, one with `finish_reason` and `crag`, one with `usage` when asked for, "
        "`[DONE]`. A failure on the way is an event with `error`, then `[DONE]`.",
        "content": {EVENT_STREAM: {"schema": {"type": "string"}}},
    }
}


def openai_routes(answering: Answering) -> APIRouter:
    """`POST /v1/chat/completions` and `GET /v1/models`."""
    router = APIRouter(tags=["openai"])
    started = int(time.time())

    @router.get(routes.MODELS, summary="List the pipelines as models", responses=documented(refusals={}))
    async def models() -> ModelList:
        """The pipelines that can be asked here."""
        listed = [
            Model(id=name, object="model", created=started, owned_by="crag-serve")
            for name in answering.pipelines
        ]
        return ModelList(object="list", data=listed)

    @router.post(
        routes.CHAT_COMPLETIONS,
        summary="Answer a question, as OpenAI's chat completions",
        response_model=ChatCompletion,
        responses=documented(*ANSWER_ERRORS) | _STREAMED,
    )
    async def chat_completions(
        request: Request, body: ChatRequest, headers: Annotated[AnswerHeaders, Header()]
    ) -> ChatCompletion | EventStream:
        """The question is the last user message; what is not supported is refused by name."""
        ask = _ask(body, answering)
        answer_id = observation_of(request).answer_id
        reply = Reply(_pipeline(body), answer_id, with_trace=body.crag.trace)
        stream = answering.stream(request, headers, body.crag, ask, reply.pipeline, is_shown=body.stream)
        if not body.stream:
            return reply.completion(await finished(stream))
        first = await anext(stream)  # an error before the first piece still has its own status
        include_usage = body.stream_options is not None and body.stream_options.include_usage
        return EventStream(events(request, reply, first, stream, include_usage=include_usage))

    return router


def _pipeline(body: ChatRequest) -> PipelineName:
    if body.model not in set(PipelineName):
        raise PipelineNotConfigured(f"there is no model {body.model[:100]!r}: GET /v1/models names them")
    model = PipelineName(body.model)
    if body.crag.pipeline not in (None, model):
        raise refused(
            "crag.pipeline", f"is {body.crag.pipeline}, but the model is {model}: leave it out"
        )
    return model


def _ask(body: ChatRequest, answering: Answering) -> Ask:
    options = body.crag.options
    max_new_tokens = _agreed(
        max_tokens=body.max_tokens,
        max_completion_tokens=body.max_completion_tokens,
        max_new_tokens=options.max_new_tokens,
    )
    temperature = _agreed(temperature=body.temperature, options_temperature=options.temperature)
    return ask_of(
        _conversation(body.messages, answering.settings),
        body.crag,
        options.model_copy(update={"max_new_tokens": max_new_tokens, "temperature": temperature}),
        answering.settings,
        SamplingOptions(top_p=body.top_p, stop=body.stop, seed=body.seed),
        at="crag.",
    )


def _agreed(**named: Value | None) -> Value | None:
    """The one value that several fields give; fields of the same meaning that differ are refused."""
    given = {name: value for name, value in named.items() if value is not None}
    if len(set(given.values())) > 1:
        listed = " and ".join(f"{name} {value}" for name, value in given.items())
        raise refused(next(iter(given)), f"{listed} mean the same but differ: send one of them")
    return next(iter(given.values()), None)


def _conversation(messages: Sequence[ChatMessage], settings: ApiSettings) -> Conversation:
    check_characters(
        (message.text for message in messages), settings.max_document_characters, field="messages"
    )
    system = [message for message in messages if message.role in ("system", "developer")]
    turns = [message for message in messages if message.role in ("user", "assistant")]
    if not turns or turns[-1].role != "user":
        raise refused("messages", "the last turn must be the user's question")
    return Conversation(
        text=turns[-1].text.strip(),
        field="messages",
        system=tuple(message.text for message in system if message.text.strip()),
        history=tuple(Turn(message.role, message.text) for message in turns[:-1]),
    )
