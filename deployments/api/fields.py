"""The building blocks of requests: texts, seconds, documents, and objects without unknown fields."""

import math
import re
from typing import Annotated, Any

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    model_validator,
)

_MAX_FIELDS = 64
_WEB_ADDRESS = re.compile(r"https?://[^\s\x00-\x20\x7f<>\"]+", re.IGNORECASE)


def few_fields(fields: Any) -> Any:
    """Refuse an object with very many fields at once: to name each unknown one takes seconds."""
    if isinstance(fields, dict):
        for each in (fields, *fields.values()):
            if isinstance(each, dict) and len(each) > _MAX_FIELDS:
                raise ValueError(f"has an object of {len(each)} fields, but the limit is {_MAX_FIELDS}")
    return fields


def at_most(limit: int, what: str) -> BeforeValidator:
    """Refuse a longer list before its items are looked at."""

    def check(items: Any) -> Any:
        if isinstance(items, list) and len(items) > limit:
            raise ValueError(f"has {len(items)} {what}, but the limit is {limit}")
        return items

    return BeforeValidator(check)


def _encodable(text: str) -> str:
    """JSON may hold half of a surrogate pair, which no later stage could encode."""
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise ValueError(
            f"holds half of a surrogate pair, which is no character, at {error.start}"
        ) from error
    return text


def _web_address(url: str) -> str:
    if not _WEB_ADDRESS.fullmatch(url):
        raise ValueError("must be an http or https address")
    return url


def _seconds(value: object) -> float:
    try:
        seconds = float(value) if isinstance(value, int | float) else math.nan
    except OverflowError:
        seconds = math.inf
    if isinstance(value, bool) or not 0 < seconds < math.inf:
        raise ValueError("must be a positive, finite number of seconds")
    return seconds


def _header_seconds(text: str) -> float:
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    return _seconds(number)


def as_document(document: object) -> object:
    """A bare text is a document of that text."""
    return {"text": document} if isinstance(document, str) else document


Text = Annotated[str, AfterValidator(_encodable)]
Trimmed = Annotated[Text, AfterValidator(str.strip)]
Seconds = Annotated[float, Field(gt=0), BeforeValidator(_seconds)]
HeaderSeconds = Annotated[float, Field(gt=0), BeforeValidator(_header_seconds)]


class RequestModel(BaseModel):
    """The base of everything sent: unknown fields are refused by name, and null is absent."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    @model_validator(mode="before")
    @classmethod
    def _without_nulls(cls, fields: Any) -> Any:
        if not isinstance(few_fields(fields), dict):
            return fields
        return {name: value for name, value in fields.items() if value is not None}


class GivenDocument(RequestModel):
    """A document of the caller's own."""

    text: Text = Field(description="The text; an empty one decides nothing.")
    title: Text = Field("", max_length=1_000, description="Its title, quoted with the evidence.")
    url: Annotated[Text, AfterValidator(_web_address)] | None = Field(
        None, max_length=2_000, description="An http or https address, repeated in citations."
    )


GivenDocuments = tuple[
    Annotated[
        GivenDocument,
        BeforeValidator(as_document, json_schema_input_type=str | GivenDocument),
    ],
    ...,
]


class GivenChoice(RequestModel):
    """One option of a multiple-choice question."""

    label: Text = Field(min_length=1, max_length=20, description="Such as A.")
    text: Text = Field(min_length=1, max_length=2_000, description="What the label stands for.")
