"""Documents to order, and their order."""

from typing import Annotated

from pydantic import BaseModel, Field

from deployments.api.fields import GivenDocument, GivenDocuments, RequestModel, Trimmed, at_most

_MAX_DOCUMENTS = 10_000
"""The settings may lower it, not raise it: a list must not be read just to be refused."""


class RerankRequest(RequestModel):
    """Documents to order by relevance to a query."""

    query: Trimmed = Field(description="1 to 4,000 characters after trimming.")
    documents: Annotated[
        GivenDocuments,
        Field(max_length=_MAX_DOCUMENTS, fail_fast=True),
        at_most(_MAX_DOCUMENTS, "documents"),
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
