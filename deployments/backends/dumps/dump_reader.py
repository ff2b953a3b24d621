"""Reads a MediaWiki XML dump page by page, in memory that no dump can grow."""

import re
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import quote
from xml.sax import SAXException, SAXParseException
from xml.sax.handler import ContentHandler
from xml.sax.xmlreader import AttributesImpl, Locator

from defusedxml.common import DefusedXmlException
from defusedxml.expatreader import DefusedExpatParser

from crag_core.errors import SettingsError
from deployments.backends.indexes.source_file import Meter, read_blocks

MAX_TEXT_CHARACTERS = 2_097_152
"""MediaWiki stores no longer page unless it is told to ($wgMaxArticleSize)."""

_MAX_FIELD_CHARACTERS = 1_024
_MAX_DEPTH = 16
_MAX_TAG_BYTES = 16_777_216
_DUMP_NAME = re.compile(r"\.xml(-p\d+p\d+)?(\.bz2|\.gz)?$")
_HIDDEN_NAMESPACES = {"-2", "6", "14"}
"""Media, files and categories: links to them are no text of the page."""


@dataclass(frozen=True, slots=True)
class Site:
    """What a dump says of its wiki: where its pages are, and which links are no text."""

    base: str | None = None
    hidden_prefixes: frozenset[str] = frozenset({"media", "file", "image", "category"})

    def url(self, title: str) -> str | None:
        """Address of a page, None where the dump names no web address of its wiki."""
        if self.base is None:
            return None
        return self.base + quote(title.replace(" ", "_"), safe=";@$!*(),/~:")


@dataclass(slots=True)
class DumpPage:
    """A page as its dump has it, at its last revision; `line` is where it begins, counted from 1.

    A page outside the namespace 0 comes without its text. `fault` says why a page cannot be used.
    """

    line: int
    title: str = ""
    namespace: str = ""
    redirect: str | None = None
    revision: str = ""
    model: str = "wikitext"
    text: str = ""
    fault: str | None = None


def is_dump(file: Path) -> bool:
    """Whether a file's name is that of a dump, which Wikimedia's parts (`.xml-p1p41242.bz2`) are too."""
    return _DUMP_NAME.search(file.name) is not None


def read_dump(file: Path, meter: Meter) -> Iterator[tuple[Site, DumpPage]]:
    """Every page of a dump in order.

    Raises SettingsError, with the line, when the file is no dump, is broken or cut off, or has a
    document type or entities of its own, which MediaWiki never writes.
    """
    parser = DefusedExpatParser(forbid_dtd=True)
    handler = _DumpHandler(parser)
    parser.setContentHandler(handler)
    unanswered_bytes = 0
    try:
        for block in read_blocks(file, meter):
            handler.has_begun, handler.has_moved = True, False
            parser.feed(block)
            unanswered_bytes = 0 if handler.has_moved else unanswered_bytes + len(block)
            if unanswered_bytes > _MAX_TAG_BYTES:
                raise _NoDump(f"a tag or comment is longer than {_MAX_TAG_BYTES:,} bytes")
            for page in handler.take():
                yield handler.site, page
        if not handler.has_begun:
            raise _NoDump("it is empty")
        parser.close()
    except DefusedXmlException as error:
        raise SettingsError(
            f"{file} is refused at line {handler.line}: it declares a document type or an entity, "
            "which no MediaWiki dump does"
        ) from error
    except SAXParseException as error:
        raise SettingsError(
            f"{file} breaks off or is damaged at line {error.getLineNumber()} "
            f"({error.getMessage()}): copy it again, or make the dump again"
        ) from error
    except SAXException as error:
        raise SettingsError(f"{file} is no MediaWiki dump: {error.getMessage()}") from error


class _NoDump(SAXException):
    """Well-formed so far, and still not what MediaWiki writes."""


@dataclass(slots=True)
class _Field:
    """The characters of one element, up to a bound."""

    limit: int = _MAX_FIELD_CHARACTERS
    characters: int = 0
    pieces: list[str] = field(default_factory=list)

    def add(self, content: str) -> None:
        self.characters += len(content)
        if self.characters > self.limit:
            self.pieces.clear()
        else:
            self.pieces.append(content)


class _DumpHandler(ContentHandler):
    """Hears the elements of a dump; keeps one page and what is asked of it."""

    def __init__(self, locator: Locator) -> None:
        super().__init__()
        self.site = Site()
        self.has_begun = self.has_moved = False
        self._locator = locator
        self._path: list[str] = []
        self._namespace_key = ""
        self._page: DumpPage | None = None
        self._field: _Field | None = None
        self._finished: list[DumpPage] = []

    @property
    def line(self) -> int:
        """Where the parser is, counted from 1."""
        return self._locator.getLineNumber() or 1

    def take(self) -> list[DumpPage]:
        """The pages finished since the last call."""
        finished, self._finished = self._finished, []
        return finished

    def startElement(self, name: str, attrs: AttributesImpl) -> None:  # noqa: N802
        self.has_moved = True
        self._path.append(name)
        if len(self._path) > _MAX_DEPTH:
            raise _NoDump(f"its elements are nested {_MAX_DEPTH} deep at line {self.line}")
        self._field = None
        match self._path:
            case [root] if root != "mediawiki":
                raise _NoDump(f"its root is <{root[:80]}>, not <mediawiki>")
            case ["mediawiki", "siteinfo", "namespaces", "namespace"]:
                self._namespace_key = attrs.get("key", "")
                self._field = _Field()
            case ["mediawiki", "siteinfo", "base"]:
                self._field = _Field()
            case ["mediawiki", "page"]:
                self._page = DumpPage(self.line)
            case ["mediawiki", "page", "redirect"] if self._page:
                self._page.redirect = attrs.get("title", "")[:_MAX_FIELD_CHARACTERS]
            case ["mediawiki", "page", "revision", "text"]:
                # a page outside the encyclopedia itself is only counted
                is_read = self._page is not None and self._page.namespace in ("", "0")
                self._field = _Field(MAX_TEXT_CHARACTERS) if is_read else None
            case ["mediawiki", "page", "title" | "ns"]:
                self._field = _Field()
            case ["mediawiki", "page", "revision", "id" | "model"]:
                self._field = _Field()

    def characters(self, content: str) -> None:
        self.has_moved = True
        if self._field:
            self._field.add(content)

    def endElement(self, name: str) -> None:  # noqa: N802
        self.has_moved = True
        ended, self._field = self._field, None
        self._path.pop()
        if ended:
            self._keep(name, ended)
        if self._page and self._path == ["mediawiki"]:
            self._finished.append(self._page)
            self._page = None

    def _keep(self, name: str, ended: _Field) -> None:
        text = "".join(ended.pieces)
        match name:
            case "namespace":
                if self._namespace_key in _HIDDEN_NAMESPACES and text:
                    hidden = self.site.hidden_prefixes | {text.casefold()}
                    self.site = Site(self.site.base, hidden)
            case "base":
                is_web_address = re.match(r"https?://[^\s/]+/", text)
                base = text[: max(text.rfind("/"), text.rfind("=")) + 1]
                self.site = Site(base if is_web_address else None, self.site.hidden_prefixes)
            case _ if self._page:
                if ended.characters > ended.limit:
                    self._page.fault = f"its {name} is longer than {ended.limit:,} characters"
                if name == "title":
                    text = unicodedata.normalize("NFC", " ".join(text.replace("_", " ").split()))
                attribute = {"ns": "namespace", "id": "revision"}.get(name, name)
                setattr(self._page, attribute, text)
