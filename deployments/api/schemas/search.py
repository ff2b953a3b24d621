"""What to search for, and the pages found."""

from typing import Self

from pydantic import BaseModel, Field, model_validator

from crag_core.types import (
    Degradation,
    Document,
    DocumentSource,
    SearchedDocument,
    SearchQuery,
    Strategy,
)
from deployments.api.fields import RequestModel, Trimmed


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
