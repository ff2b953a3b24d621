"""Questions and answers; both answer routes share them."""

from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, BeforeValidator, Field, ValidationInfo, field_validator

from crag_core.settings import AnswerOptions
from crag_core.types import (
    Action,
    Answer,
    Citation,
    Degradation,
    EvidenceQuality,
    PipelineName,
    Task,
    Trace,
    Usage,
)
from deployments.api.fields import (
    GivenChoice,
    GivenDocuments,
    HeaderSeconds,
    RequestModel,
    Seconds,
    Trimmed,
    at_most,
    few_fields,
)

_MIN_CHOICES, _MAX_CHOICES = 2, 10
_MAX_DOCUMENTS = 100
"""The settings may lower it, not raise it: a list must not be read just to be refused."""


class AskFields(RequestModel):
    """What may be said about a question, on both answer routes."""

    task: Task = Field(Task.QUESTION, description="What kind of answer the question wants.")
    choices: Annotated[
        tuple[GivenChoice, ...], Field(fail_fast=True), at_most(_MAX_CHOICES, "choices")
    ] = Field(
        (),
        validate_default=True,
        description="2 to 10 options with different labels; for task `choice`, and only there.",
    )
    documents: (
        Annotated[
            GivenDocuments,
            Field(max_length=_MAX_DOCUMENTS, fail_fast=True),
            at_most(_MAX_DOCUMENTS, "documents"),
        ]
        | None
    ) = Field(
        None,
        description="Your own documents, instead of retrieval: texts, or objects with text, title "
        "and url. An empty list means none. Their ids are document-0, document-1 and so on.",
    )
    pipeline: PipelineName | None = Field(None, description="Which pipeline answers.")
    options: Annotated[AnswerOptions, BeforeValidator(few_fields)] = Field(
        AnswerOptions(), description="What this request changes of the application's settings."
    )
    timeout_s: Seconds | None = Field(
        None,
        description="Seconds the answer may take; the smaller of this and the header counts.",
    )
    lane: Literal["interactive", "batch"] = Field(
        "interactive",
        description="How urgent it is: `batch` waits behind `interactive`, and is refused first.",
    )
    trace: bool = Field(True, description="Whether the response holds the trace.")

    @field_validator("choices")
    @classmethod
    def _choices_fit_task(
        cls, choices: tuple[GivenChoice, ...], info: ValidationInfo
    ) -> tuple[GivenChoice, ...]:
        if info.data.get("task") is not Task.CHOICE:
            if choices:
                raise ValueError("only task `choice` takes choices")
        elif not _MIN_CHOICES <= len(choices) <= _MAX_CHOICES:
            raise ValueError(
                f"task `choice` needs {_MIN_CHOICES} to {_MAX_CHOICES} choices, got {len(choices)}"
            )
        if len({choice.label for choice in choices}) < len(choices):
            raise ValueError("two choices have the same label")
        return choices


class AnswerRequest(AskFields):
    """A question for one of the pipelines."""

    question: Trimmed = Field(description="1 to 4,000 characters after trimming.")


class AnswerHeaders(BaseModel):
    """Headers that an answer heeds."""

    x_crag_timeout_s: HeaderSeconds | None = Field(
        None, description="Seconds the answer may take; the smaller of this and `timeout_s` counts."
    )
    traceparent: str | None = Field(None, description="W3C trace context, handed on to the stages.")


class AnswerDetails(BaseModel):
    """How an answer came about; the same object on every route, streamed or not."""

    id: str = Field(description="Names this answer.")
    pipeline: PipelineName
    action: Action | None = Field(description="What the action trigger decided; null without one.")
    evidence_quality: EvidenceQuality
    degraded: tuple[Degradation, ...] = Field(
        description="What was given up, and why: for want of time, of evidence, or of a source."
    )
    citations: tuple[Citation, ...] = Field(
        description="The evidence in the prompt; start and end are code points of the document's text."
    )
    usage: Usage
    trace: Trace | None = Field(description="Scores, thresholds and times; null when not wanted.")

    @classmethod
    def of(cls, answer: Answer, answer_id: str, /, *, trace: bool, **more: Any) -> Self:
        """The details of a finished answer."""
        return cls(
            id=answer_id,
            pipeline=answer.pipeline,
            action=answer.action,
            evidence_quality=answer.evidence_quality,
            degraded=answer.degraded,
            citations=answer.citations,
            usage=answer.usage,
            trace=answer.trace if trace else None,
            **more,
        )


class AnswerResponse(AnswerDetails):
    """An answer with its evidence."""

    answer: str = Field(description="The answer's text.")
