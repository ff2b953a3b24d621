"""The OpenAI route's requests and responses: the part of chat completions that is honoured."""

from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, Field, ValidationInfo, field_validator
from pydantic_core import PydanticCustomError

from crag_core.types import PipelineName
from deployments.api.errors import UNSUPPORTED_FIELD
from deployments.api.fields import RequestModel, Text, at_most
from deployments.api.schemas.answer import AnswerDetails, AskFields

_MAX_MESSAGES = 256
_MAX_PARTS = 64
_MAX_SEED = 2**63 - 1


def _only(*supported: object) -> BeforeValidator:
    """A value that OpenAI knows and this route does not is refused by name, not as a mistake."""

    def check(value: Any) -> Any:
        if isinstance(value, str | int) and value not in supported:
            context = {"value": str(value), "supported": ", ".join(map(str, supported))}
            message = "{value} is not supported, only {supported}"
            raise PydanticCustomError(UNSUPPORTED_FIELD, message, context)
        return value

    return BeforeValidator(check)


def _as_parts(content: Any) -> Any:
    return [{"type": "text", "text": content}] if isinstance(content, str) else content


def _as_list(stop: Any) -> Any:
    return [stop] if isinstance(stop, str) else stop


StopTexts = Annotated[
    tuple[Annotated[Text, Field(min_length=1, max_length=256)], ...],
    Field(max_length=4, fail_fast=True),
    BeforeValidator(_as_list, json_schema_input_type=str | list[str]),
]


class TextPart(RequestModel):
    """A text part of a message; images and audio are not supported."""

    type: Annotated[Literal["text"], _only("text")]
    text: Text


class ChatMessage(RequestModel):
    """One message; its parts are joined by line breaks."""

    role: Annotated[
        Literal["system", "developer", "user", "assistant"],
        _only("system", "developer", "user", "assistant"),
    ]
    content: Annotated[
        tuple[TextPart, ...],
        Field(max_length=_MAX_PARTS, fail_fast=True),
        at_most(_MAX_PARTS, "parts"),
        BeforeValidator(_as_parts, json_schema_input_type=str | list[TextPart]),
    ]

    @property
    def text(self) -> str:
        """The message's text."""
        return "\n".join(part.text for part in self.content)


class StreamOptions(RequestModel):
    """What a stream holds beside the answer."""

    include_usage: bool = Field(False, description="Whether a last chunk counts the tokens.")


class ChatRequest(RequestModel):
    """A chat completion: the last user message is the question."""

    model: Text = Field(description="The pipeline: crag, rag, no_retrieval or compact.")
    messages: Annotated[
        tuple[ChatMessage, ...],
        Field(min_length=1, max_length=_MAX_MESSAGES, fail_fast=True),
        at_most(_MAX_MESSAGES, "messages"),
    ] = Field(
        description="System messages stand before the instruction; earlier turns stay in the prompt "
        "as far as they fit, and are not searched.",
    )
    temperature: float | None = Field(None, ge=0, le=2, description="0 is greedy.")
    top_p: float | None = Field(None, gt=0, le=1, description="Nucleus sampling.")
    max_tokens: int | None = Field(None, ge=1, le=1024, description="Tokens generated at most.")
    max_completion_tokens: int | None = Field(
        None, ge=1, le=1024, description="The newer name of `max_tokens`."
    )
    stop: StopTexts | None = Field(None, description="A text, or up to 4, that end the answer.")
    seed: int | None = Field(None, ge=-_MAX_SEED, le=_MAX_SEED, description="Seed of the sampling.")
    n: Annotated[Literal[1], _only(1)] = Field(1, description="One answer per request.")
    user: Text | None = Field(None, description="Accepted for clients that send it; changes nothing.")
    stream: bool = Field(False, description="Whether the answer comes in pieces.")
    stream_options: StreamOptions | None = Field(None, description="For `stream` only.")
    crag: AskFields = Field(AskFields(), description="What `POST /v1/answer` takes beside the question.")

    @field_validator("stream_options")
    @classmethod
    def _only_for_streams(
        cls, options: StreamOptions | None, info: ValidationInfo
    ) -> StreamOptions | None:
        if options is not None and not info.data.get("stream"):
            raise ValueError("is for `stream: true` only")
        return options


class ChatUsage(BaseModel):
    """Tokens of the prompt and the answer."""

    prompt_tokens: int
    completion_tokens: int
    total_tokens: int


class AnswerMessage(BaseModel):
    """The answer as a message."""

    role: Literal["assistant"]
    content: str


class ChatChoice(BaseModel):
    """The one choice."""

    index: Literal[0]
    message: AnswerMessage
    finish_reason: str


class ChatCompletion(BaseModel):
    """An answer in OpenAI's form; `crag` says how it came about."""

    id: str
    object: Literal["chat.completion"]
    created: int = Field(description="Unix time in seconds.")
    model: PipelineName
    choices: list[ChatChoice]
    usage: ChatUsage
    crag: AnswerDetails


class Model(BaseModel):
    """A pipeline in OpenAI's form."""

    id: PipelineName
    object: Literal["model"]
    created: int
    owned_by: str


class ModelList(BaseModel):
    """The pipelines of this application."""

    object: Literal["list"]
    data: list[Model]
