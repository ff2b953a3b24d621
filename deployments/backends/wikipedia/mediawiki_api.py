"""The Action API's side of knowledge searching: the query that is sent, the answer that is read."""

import math
import re
import unicodedata
from collections.abc import Mapping, Sequence
from urllib.parse import urlsplit

from pydantic import BaseModel

from crag_core.types import Document, DocumentSource

_QUERY_CHARACTERS = 300
"""Wikipedia refuses longer searches."""

_MAX_PAGES = 20
"""Introductions that one request can bring."""

_SPARE_PAGES = 2
"""Asked for beyond the limit, to stand in for disambiguation pages."""

_PARAMETERS = {
    "action": "query",
    "format": "json",
    "formatversion": "2",
    "errorformat": "plaintext",
    "redirects": "1",
    "generator": "search",
    "gsrwhat": "text",  # elsewhere than on Wikipedia the default searches titles alone
    "prop": "extracts|info|pageprops",
    "exintro": "1",
    "explaintext": "1",
    "exlimit": "max",
    "inprop": "url",
    "ppprop": "disambiguation",
}

_OPERATORS = re.compile(
    r'["<>\[\]{}|~^*?\\:]'  # a colon makes a keyword of the word before it: insource:, intitle:, File:
    r"|(?<![\w+!-])[-+!]+"
    r"|&&"
    r"|[\x00-\x1f\x7f\ud800-\udfff]"  # no text: control characters, halves of surrogate pairs
)
_CODE = re.compile(r"[\w-]{1,80}")
_BOOLEANS = re.compile(r"\b(?:AND|OR|NOT)\b")


class _Page(BaseModel):
    pageid: int | None = None  # absent where a redirect leads nowhere
    title: str
    index: float = math.inf
    extract: str = ""
    lastrevid: int | None = None
    canonicalurl: str = ""
    pageprops: Mapping[str, object] = {}

    @property
    def is_readable(self) -> bool:
        return (
            self.pageid is not None
            and bool(self.extract.strip())
            and "disambiguation" not in self.pageprops
        )


class _Query(BaseModel):
    pages: Sequence[_Page] = ()


class _ApiError(BaseModel):
    code: str


class QueryAnswer(BaseModel):
    """What the Action API answers to `action=query`; `query` is absent where nothing was found."""

    query: _Query = _Query()
    errors: Sequence[_ApiError] = ()


def search_parameters(query: str, limit: int) -> Mapping[str, str]:
    """The one request that finds pages and brings their introductions, addresses and revisions."""
    pages = min(limit + _SPARE_PAGES, _MAX_PAGES)
    return _PARAMETERS | {"gsrsearch": query, "gsrlimit": str(pages)}


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


def readable_documents(answer: QueryAnswer, host: str) -> list[Document]:
    """The pages of an answer, best first, without disambiguation pages and pages without text."""
    pages = sorted(answer.query.pages, key=lambda page: page.index)
    return [
        Document(
            id=f"wikipedia:{page.pageid}",
            text=page.extract.strip(),
            title=page.title,
            source=DocumentSource.WIKIPEDIA,
            url=page.canonicalurl if _is_web_address_on(host, page.canonicalurl) else None,
            revision=str(page.lastrevid) if page.lastrevid else None,
        )
        for page in pages
        if page.is_readable
    ]


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
