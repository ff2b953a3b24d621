"""Requests and responses of the project's own routes: what is sent, checked, and answered."""

from typing import Annotated, Any, Literal, Self

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationInfo,
    field_validator,
    model_validator,
)

from crag_core.explaining import ClassValue, Method, TokenValue, Unit
from crag_core.settings import AnswerOptions
from crag_core.types import (
    Action,
    Answer,
    Citation,
    Degradation,
    Document,
    DocumentSource,
    EvidenceQuality,
    PipelineName,
    SearchedDocument,
    SearchQuery,
    Strategy,
    Task,
    Trace,
    Usage,
)
from deployments.api.fields import (
    GivenChoice,
    GivenDocument,
    GivenDocuments,
    HeaderSeconds,
    RequestModel,
    Seconds,
    Text,
    Trimmed,
    as_document,
    at_most,
    few_fields,
)

_MIN_CHOICES, _MAX_CHOICES = 2, 10
_MAX_DOCUMENTS = 100
_MAX_RERANK_DOCUMENTS = 10_000
"""The settings may lower these, not raise them: a list must not be read just to be refused."""


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


class RerankRequest(RequestModel):
    """Documents to order by relevance to a query."""

    query: Trimmed = Field(description="1 to 4,000 characters after trimming.")
    documents: Annotated[
        GivenDocuments,
        Field(max_length=_MAX_RERANK_DOCUMENTS, fail_fast=True),
        at_most(_MAX_RERANK_DOCUMENTS, "documents"),
    ] = Field(description="Texts, or objects with text and title.")
    top_n: int | None = Field(None, ge=1, description="Results at most; all when absent.")
    return_documents: bool = Field(False, description="Whether results repeat their documents.")


class RerankResult(BaseModel):
    """One document's place."""

    index: int = Field(description="The document's position in the request, from 0.")
    relevance_score: float | None = Field(
        description="The evaluator's raw logit; null for an empty document, which comes last."
    )
    document: GivenDocument | None = Field(None, description="The document, when asked for.")


class RerankResponse(BaseModel):
    """Documents, best first; equal scores stay in the request's order."""

    results: list[RerankResult]


class SearchRequest(RequestModel):
    """What to search for: a question, or a query; one of the two."""

    query: Trimmed | None = Field(
        None, description="Looked up as a title, and searched for in full text, as it is."
    )
    question: Trimmed | None = Field(None, description="Made into queries, as for an answer.")
    limit: int = Field(5, ge=1, le=20, description="Pages at most.")

    @model_validator(mode="after")
    def _one_of_two(self) -> Self:
        if (self.query is None) == (self.question is None):
            raise ValueError("needs either `question` or `query`")
        return self


class SearchResultItem(BaseModel):
    """A page, with the way that led to it."""

    document_id: str
    title: str
    url: str | None
    revision: str | None
    source: DocumentSource
    strategy: Strategy = Field(description="Which of the five strategies found it.")
    query: str = Field(description="The title looked up, or the words searched for.")
    score: float | None = Field(
        description="The evaluator's score, where pages of one name had to be told apart."
    )
    text: str = Field(description="The page's lead.")

    @classmethod
    def of(cls, document: Document, searched: SearchedDocument) -> Self:
        """The item for a page that was chosen."""
        return cls(
            document_id=document.id,
            title=document.title,
            url=document.url,
            revision=document.revision,
            source=document.source,
            strategy=searched.strategy,
            query=searched.query,
            score=searched.score,
            text=document.text,
        )


class SearchResponse(BaseModel):
    """The pages found, best first, and what was asked for them."""

    queries: tuple[SearchQuery, ...] = Field(description="The plan: queries, ranked, with the reason.")
    results: list[SearchResultItem]
    same_name: list[str] = Field(
        description="Titles of other pages of that name, of which a better match was chosen."
    )
    requests: int = Field(description="Requests that the source was sent, or spared by its cache.")
    degraded: tuple[Degradation, ...] = Field(
        description="Sources that were down, or gave older copies of their pages."
    )


class ExplainRequest(RequestModel):
    """A pair whose score is to be explained: its texts, or an answer's document that was recorded."""

    question: Trimmed | None = Field(None, description="1 to 4,000 characters after trimming.")
    passage: (
        Annotated[
            GivenDocument,
            BeforeValidator(as_document, json_schema_input_type=str | GivenDocument),
        ]
        | None
    ) = Field(None, description="A text, or an object with text and title.")
    answer_id: Text | None = Field(None, max_length=100, description="The `id` of an answer.")
    document_id: Text | None = Field(
        None, max_length=1_000, description="The `document_id` of a document in its trace."
    )
    unit: Unit = Field(Unit.WORD, description="What gets a value of its own.")
    method: Method = Field(
        Method.AUTO,
        description="`auto` evaluates every combination of up to 12 tokens, and else finds Owen values.",
    )
    max_evaluations: int | None = Field(
        None, ge=16, description="Masked inputs at most; `exact` takes as many as it needs, up to 4,096."
    )
    seed: int = Field(0, ge=0, lt=2**63, description="Seed of what is drawn by chance.")
    timeout_s: Seconds | None = Field(
        None, description="Seconds it may take; the smaller of this and the header counts."
    )

    @model_validator(mode="after")
    def _one_pair(self) -> Self:
        texts = (self.question is not None, self.passage is not None)
        recorded = (self.answer_id is not None, self.document_id is not None)
        if (texts, recorded) not in (((True, True), (False, False)), ((False, False), (True, True))):
            raise ValueError("needs either `question` and `passage`, or `answer_id` and `document_id`")
        return self


class ExplainResponse(BaseModel):
    """A score, and what each token adds to it."""

    model_config = ConfigDict(from_attributes=True)

    score: float = Field(description="The evaluator's raw logit of the pair.")
    base_value: float = Field(description="Its score with everything masked.")
    tokens: tuple[TokenValue, ...] = Field(
        description="In order; start and end are code points of the side's text."
    )
    classes: tuple[ClassValue, ...] = Field(
        description="Sums and means over the tokens of a class, which are given by position."
    )
    evaluations: int = Field(description="Masked inputs that were scored, each once.")
    method: Method
    unit: Unit
    additivity_error: float = Field(description="How far base and values together miss the score.")
    standard_error: float | None = Field(
        description="Of an estimated value, by root mean square; null where none is estimated."
    )
    truncated: bool = Field(description="Whether the evaluator reads only the beginning of the pair.")
    evaluator_id: str = Field(description="Names the checkpoint.")


class ErrorDetail(BaseModel):
    """What went wrong; `type` and `param` stand on the OpenAI routes only."""

    code: str = Field(description="Names the kind of error; never changes.")
    message: str = Field(description="What was wrong and what to do, for a person.")
    field: str | None = Field(None, description="The request's field at fault, as a dotted path.")
    request_id: str = Field(description="As in the header `x-request-id`.")
    type: str | None = Field(None, description="OpenAI's kind of error.")
    param: str | None = Field(None, description="OpenAI's name for `field`.")


class ErrorBody(BaseModel):
    """The body of every error."""

    error: ErrorDetail
