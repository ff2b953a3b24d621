"""Limits on a request's texts that the settings name; a refusal says the limit and the value."""

from collections.abc import Iterable, Sequence

from deployments.api.errors import refused
from deployments.api.fields import GivenDocument
from deployments.settings import ApiSettings


def check_question(text: str, settings: ApiSettings, *, field: str) -> None:
    """Refuse an empty question, or one that is too long."""
    if not text:
        raise refused(field, "must not be empty")
    check_characters([text], settings.max_question_characters, field=field)


def check_documents(
    documents: Sequence[GivenDocument], settings: ApiSettings, *, max_documents: int, field: str
) -> None:
    """Refuse too many documents, one that is too long, or too many characters together."""
    if len(documents) > max_documents:
        raise refused(field, f"has {len(documents)} documents, but the limit is {max_documents}")
    for position, document in enumerate(documents):
        check_characters(
            [document.text], settings.max_document_characters, field=f"{field}.{position}.text"
        )
    check_characters(
        (document.text for document in documents), settings.max_documents_characters, field=field
    )


def check_characters(texts: Iterable[str], limit: int, *, field: str) -> None:
    """Refuse texts that have more than `limit` characters together."""
    characters = sum(map(len, texts))
    if characters > limit:
        raise refused(field, f"has {characters} characters, but the limit is {limit}")
