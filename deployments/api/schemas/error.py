"""The body of every error."""

from pydantic import BaseModel, Field


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
