"""The Action API's side of knowledge searching: full-text queries made safe, answers read."""

import math
import re
import unicodedata
from collections.abc import Mapping, Sequence
from typing import Self
from urllib.parse import urlsplit

from pydantic import BaseModel, Field, PrivateAttr

from crag_core.types import Document, DocumentSource

_QUERY_CHARACTERS = 300
"""Wikipedia refuses longer searches."""

_OPERATORS = re.compile(
    r'["<>\[\]{}|~^*?\\:]'  # a colon makes a keyword of the word before it: insource:, intitle:, File:
    r"|(?<![\w+!-])[-+!]+"
    r"|&&"
    r"|[\x00-\x1f\x7f\ud800-\udfff]"  # no text: control characters, halves of surrogate pairs
)
_CODE = re.compile(r"[\w-]{1,80}")
_BOOLEANS = re.compile(r"\b(?:AND|OR|NOT)\b")


class Page(BaseModel):
    """One page of an answer; `pageid` is absent where there is no such page."""

    pageid: int | None = None
    ns: int = 0
    title: str
    index: float = math.inf
    extract: str = ""
    lastrevid: int | None = None
    canonicalurl: str = ""
    pageprops: Mapping[str, object] = {}
    _is_stale: bool = PrivateAttr(False)

    @property
    def is_disambiguation(self) -> bool:
        """Whether the page only lists what its title may mean."""
        return self.pageid is not None and "disambiguation" in self.pageprops

    @property
    def is_article(self) -> bool:
        """Whether the page exists, in the namespace of articles, and is no disambiguation page."""
        return self.pageid is not None and self.ns == 0 and not self.is_disambiguation

    @property
    def is_readable(self) -> bool:
        """Whether the page is an article with text."""
        return self.is_article and bool(self.extract.strip())

    def document(self, host: str) -> Document:
        """The page as a document; its address is kept only when it lies on the wiki's own host."""
        return Document(
            id=f"wikipedia:{self.pageid}",
            text=self.extract.strip(),
            title=self.title,
            source=DocumentSource.WIKIPEDIA,
            url=self.canonicalurl if _is_web_address_on(host, self.canonicalurl) else None,
            revision=str(self.lastrevid) if self.lastrevid else None,
            is_stale=self._is_stale,
        )


class _Renamed(BaseModel):
    """One step from what was asked for to what there is."""

    source: str = Field(alias="from")
    to: str


class _Query(BaseModel):
    pages: Sequence[Page] = ()
    normalized: Sequence[_Renamed] = ()
    redirects: Sequence[_Renamed] = ()


class _ApiError(BaseModel):
    code: str


class QueryAnswer(BaseModel):
    """What the Action API answers to `action=query`; `query` is absent where nothing was found."""

    query: _Query = _Query()
    errors: Sequence[_ApiError] = ()

    @classmethod
    def read(cls, body: bytes, *, is_stale: bool) -> Self:
        """The answer in the wiki's JSON; its pages know whether an older answer stood in for it."""
        answer = cls.model_validate_json(body)
        for page in answer.query.pages:
            page._is_stale = is_stale
        return answer

    @property
    def ranked(self) -> list[Page]:
        """The pages of a full-text search, best first."""
        return sorted(self.query.pages, key=lambda page: page.index)

    def pages_of(self, titles: Sequence[str]) -> list[Page | None]:
        """The page that each title led to; `None` where it led nowhere, or round in a circle."""
        normalized = {step.source: step.to for step in self.query.normalized}
        redirects = {step.source: step.to for step in self.query.redirects}
        pages = {page.title: page for page in self.query.pages if page.pageid is not None}
        return [pages.get(_end_of(redirects, normalized.get(title, title))) for title in titles]


def _end_of(redirects: Mapping[str, str], title: str) -> str:
    for _ in range(len(redirects) + 1):  # chains are listed link by link, and may be closed
        if title not in redirects:
            return title
        title = redirects[title]
    return ""


def plain_query(query: str) -> str:
    """A full-text query in NFC, at most 300 characters, in which no sign is a search operator.

    >>> plain_query('insource:/a.*b/ "C++" -Java')
    'insource /a. b/ C++ Java'
    """
    plain = _OPERATORS.sub(" ", unicodedata.normalize("NFC", query))
    plain = _BOOLEANS.sub(lambda match: match[0].lower(), plain)
    words = " ".join(plain.split())
    if len(words) > _QUERY_CHARACTERS:
        words = words[: _QUERY_CHARACTERS + 1].rpartition(" ")[0] or words[:_QUERY_CHARACTERS]
    return words


def names_a_page(answer: QueryAnswer) -> bool:
    """Whether the answer names a page that exists; else it says that there is nothing."""
    return any(page.pageid is not None for page in answer.query.pages)


def error_code(answer: QueryAnswer, header: str | None) -> str | None:
    """The API error's code, `unknown` if it is no word; the header tells of errors in any format."""
    code = answer.errors[0].code if answer.errors else header
    if code is None:
        return None
    return code if _CODE.fullmatch(code) else "unknown"


def _is_web_address_on(host: str, url: str) -> bool:
    try:
        parts = urlsplit(url)
    except ValueError:
        return False
    return parts.scheme in {"http", "https"} and parts.hostname == host
