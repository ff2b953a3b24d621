"""The requests of the strategies: each brings pages with leads, addresses and revisions."""

import unicodedata
from collections.abc import Iterable, Mapping, Sequence

MAX_PAGES = 20
"""Introductions that one request can bring."""

SPARE_PAGES = 2
"""Asked for beyond the limit, to stand in for disambiguation pages."""

_LONGEST_TITLE_BYTES = 255
_NOT_IN_TITLES = frozenset("#<>[]{}|\x7f\ufffd") | {chr(code) for code in range(32)}

_QUERY = {
    "action": "query",
    "format": "json",
    "formatversion": "2",
    "errorformat": "plaintext",
    "redirects": "1",
    "prop": "extracts|info|pageprops",
    "explaintext": "1",
    "inprop": "url",
    "ppprop": "disambiguation",
}
LEADS = _QUERY | {"exintro": "1", "exlimit": "max"}
"""Of every request that brings leads; what selects the pages comes to it."""


def search_parameters(query: str, limit: int) -> Mapping[str, str]:
    """Pages by full text, best first, at most `limit` and some to spare."""
    pages = min(limit + SPARE_PAGES, MAX_PAGES)
    return LEADS | {
        "generator": "search",
        "gsrsearch": query,
        "gsrwhat": "text",  # elsewhere than on Wikipedia the default searches titles alone
        "gsrlimit": str(pages),
    }


def title_parameters(titles: Sequence[str]) -> Mapping[str, str]:
    """Pages by title, at most MAX_PAGES of them, redirects followed."""
    return LEADS | {"titles": "|".join(titles)}


def title_list_parameters(query: str, limit: int) -> Mapping[str, str]:
    """The titles of pages by full text, without their texts."""
    return _QUERY | {
        "prop": "info",
        "generator": "search",
        "gsrsearch": query,
        "gsrwhat": "text",
        "gsrlimit": str(limit),
    }


def entry_parameters(titles: Sequence[str]) -> Mapping[str, str]:
    """Pages that disambiguation pages link to, the first MAX_PAGES by title."""
    return LEADS | {
        "generator": "links",
        "titles": "|".join(titles),
        "gplnamespace": "0",
        "gpllimit": str(MAX_PAGES),
    }


def whole_page_parameters(page_id: str) -> Mapping[str, str]:
    """One page in full; headings stand between equals signs."""
    return _QUERY | {"pageids": page_id, "exlimit": "1", "exsectionformat": "wiki"}


def sendable_titles(titles: Iterable[str]) -> list[str]:
    """Titles in NFC that a wiki can have, each once; the others would only be refused.

    >>> sendable_titles(["C++", "C#", "a|b", "Beyonce\\u0301", "Beyoncé", " "])
    ['C++', 'Beyoncé']
    """
    plain = (" ".join(unicodedata.normalize("NFC", title).split()) for title in titles)
    return list(dict.fromkeys(title for title in plain if _is_title(title)))


def _is_title(title: str) -> bool:
    try:
        size = len(title.encode())
    except UnicodeEncodeError:  # half of a surrogate pair
        return False
    return 0 < size <= _LONGEST_TITLE_BYTES and not _NOT_IN_TITLES & set(title) and title[0] != ":"
