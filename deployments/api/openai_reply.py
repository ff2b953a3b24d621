"""The OpenAI route's replies: one completion, or its chunks as server-sent events."""

import json
import time
from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Any

from starlette.requests import Request
from starlette.responses import StreamingResponse
from starlette.types import Send

from crag_core.types import Answer, PipelineName
from deployments.api.errors import failed
from deployments.api.schemas.answer import AnswerDetails
from deployments.api.schemas.openai import AnswerMessage, ChatChoice, ChatCompletion, ChatUsage

EVENT_STREAM = "text/event-stream"


class EventStream(StreamingResponse):
    """Server-sent events whose generator is closed at once when the client hangs up."""

    def __init__(self, events: AsyncGenerator[str]) -> None:
        """Streams `events`, each complete with its blank line."""
        headers = {"Cache-Control": "no-cache", "X-Accel-Buffering": "no"}
        super().__init__(events, headers=headers, media_type=EVENT_STREAM)
        self._events = events

    async def stream_response(self, send: Send) -> None:
        """Send the events; close their generator however the sending ends."""
        async with aclosing(self._events):
            await super().stream_response(send)


@dataclass(frozen=True, slots=True)
class Reply:
    """What one reply's completion, or all of its chunks, have in common."""

    pipeline: PipelineName
    id: str
    with_trace: bool
    created: int = field(default_factory=lambda: int(time.time()))

    def completion(self, answer: Answer) -> ChatCompletion:
        """The whole reply at once."""
        message = AnswerMessage(role="assistant", content=answer.text)
        return ChatCompletion(
            id=f"chatcmpl-{self.id}",
            object="chat.completion",
            created=self.created,
            model=self.pipeline,
            choices=[ChatChoice(index=0, message=message, finish_reason=answer.finish_reason)],
            usage=_usage(answer),
            crag=self._details(answer),
        )

    def delta(self, **delta: str) -> str:
        """A chunk that adds to the message."""
        return self._chunk([{"index": 0, "delta": delta, "finish_reason": None}])

    def finish(self, answer: Answer) -> str:
        """The chunk that ends the message and says how the answer came about."""
        choice = {"index": 0, "delta": {}, "finish_reason": answer.finish_reason}
        return self._chunk([choice], crag=self._details(answer).model_dump(mode="json"))

    def usage(self, answer: Answer) -> str:
        """The chunk that counts the tokens."""
        return self._chunk([], usage=_usage(answer).model_dump())

    def _details(self, answer: Answer) -> AnswerDetails:
        return AnswerDetails.of(answer, self.id, trace=self.with_trace)

    def _chunk(self, choices: list[dict[str, Any]], **more: Any) -> str:
        return _event(
            {
                "id": f"chatcmpl-{self.id}",
                "object": "chat.completion.chunk",
                "created": self.created,
                "model": self.pipeline,
                "choices": choices,
                **more,
            }
        )


async def events(
    request: Request,
    reply: Reply,
    first: str | Answer,
    rest: AsyncGenerator[str | Answer],
    *,
    include_usage: bool,
) -> AsyncGenerator[str]:
    """The events of a reply whose first piece has come: always with an end, and `[DONE]` last."""
    async with aclosing(rest):
        yield reply.delta(role="assistant", content="")
        piece: str | Answer | None = first
        try:
            while piece is not None:
                if isinstance(piece, Answer):
                    yield reply.finish(piece)
                    if include_usage:
                        yield reply.usage(piece)
                else:
                    yield reply.delta(content=piece)
                piece = await anext(rest, None)
        except Exception as error:  # the status is sent: an event is all that can still tell of it
            yield _event(failed(request, error).body(request))
        yield "data: [DONE]\n\n"


def _event(data: dict[str, Any]) -> str:
    return f"data: {json.dumps(data)}\n\n"


def _usage(answer: Answer) -> ChatUsage:
    prompt, completion = answer.usage.prompt_tokens, answer.usage.completion_tokens
    return ChatUsage(
        prompt_tokens=prompt, completion_tokens=completion, total_tokens=prompt + completion
    )
