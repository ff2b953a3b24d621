"""A score to explain, and what each token adds to it."""

from typing import Annotated, Self

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, model_validator

from crag_core.explaining import ClassValue, Method, TokenValue, Unit
from deployments.api.fields import GivenDocument, RequestModel, Seconds, Text, Trimmed, as_document


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
