"""Reading a dump: every page as it stands there, and nothing that only looks like a dump."""

import gzip
import io
import tracemalloc
from pathlib import Path

import pytest

from crag_core.errors import SettingsError
from deployments.backends.dumps.dump_reader import (
    MAX_TEXT_CHARACTERS,
    DumpPage,
    Site,
    is_dump,
    read_dump,
)
from deployments.backends.indexes.source_file import Meter
from tests.deployments.dump_files import HEAD, TAIL, Page, dump, write_dump, write_made_up_dump

BOMB = (
    '<!DOCTYPE a [<!ENTITY a "aaaaaaaaaa">'
    + "".join(f'<!ENTITY {b} "{f"&{a};" * 10}">' for a, b in zip("abcdefgh", "bcdefghi", strict=True))
    + "]>"
)


def pages_of(file: Path) -> list[DumpPage]:
    return [page for _, page in read_dump(file, Meter())]


@pytest.mark.parametrize(
    ("name", "dump"),
    [
        ("wiki.xml", True),
        ("wiki.xml.bz2", True),
        ("wiki.xml.gz", True),
        ("enwiki-20260101-pages-articles1.xml-p1p41242.bz2", True),
        ("pages.jsonl", False),
        ("pages.jsonl.gz", False),
        ("wiki.xml.7z", False),
    ],
)
def test_dump_is_known_by_its_name(name: str, dump: bool) -> None:
    assert is_dump(Path(name)) is dump


def test_page_is_read_with_its_revision_and_its_line(tmp_path: Path) -> None:
    written = (
        Page("Łódź", "'''Łódź''' & <b>", revision=42),
        Page("Alt", redirect='A "b" & c', revision=9),
    )
    first, second = pages_of(write_dump(tmp_path / "wiki.xml", *written))
    head_lines = HEAD.count("\n")
    assert first == DumpPage(head_lines + 1, "Łódź", "0", None, "42", text="'''Łódź''' & <b>")
    assert second == DumpPage(head_lines + 2, "Alt", "0", 'A "b" & c', "9", text="Some text.")


def test_last_revision_of_a_page_counts(tmp_path: Path) -> None:
    page = Page("A", "old", revision=1).xml()
    newer = Page("A", "new", revision=2).xml().partition("<revision>")[2].partition("</page>")[0]
    file = tmp_path / "wiki.xml"
    file.write_text(HEAD + page.replace("</page>", f"<revision>{newer}</page>") + TAIL, "utf-8")
    (read,) = pages_of(file)
    assert (read.revision, read.text) == ("2", "new")


def test_site_has_its_addresses_and_the_names_of_files_and_categories(tmp_path: Path) -> None:
    ((site, _),) = read_dump(write_dump(tmp_path / "wiki.xml", Page("A")), Meter())
    assert site.hidden_prefixes >= {"datei", "kategorie", "medium", "file", "category"}
    assert site.url('AC/DC & "Ö" (a_b) C++?') == (
        "https://de.wiki.example/wiki/AC/DC_%26_%22%C3%96%22_(a_b)_C%2B%2B%3F"
    )


@pytest.mark.parametrize(
    ("base", "url"),
    [
        ("https://a.example/w/index.php?title=Main_Page", "https://a.example/w/index.php?title=B"),
        ("https://a.example/Main_Page", "https://a.example/B"),
        ("javascript:alert(1)/Main", None),
        ("", None),
    ],
)
def test_address_is_made_of_a_web_address_alone(tmp_path: Path, base: str, url: str | None) -> None:
    file = tmp_path / "wiki.xml"
    content = dump([Page("B")]).decode()
    file.write_text(content.replace("https://de.wiki.example/wiki/Hauptseite", base), "utf-8")
    ((site, page),) = read_dump(file, Meter())
    assert site.url(page.title) == url


def test_page_outside_the_articles_comes_without_its_text(tmp_path: Path) -> None:
    file = write_dump(tmp_path / "wiki.xml", Page("Talk:A", "Talk.", namespace=1), Page("A"))
    assert [(page.namespace, page.text) for page in pages_of(file)] == [("1", ""), ("0", "Some text.")]


def test_title_is_composed_and_its_blanks_single(tmp_path: Path) -> None:
    (page,) = pages_of(write_dump(tmp_path / "wiki.xml", Page("A\u030angstro\u0308m_\n unit")))
    assert page.title == "Ångström unit"


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "no MediaWiki dump: it is empty"),
        (b"no xml", "line 1 .syntax error"),
        (dump([Page("A")])[:-20], "breaks off or is damaged at line"),
        (dump([Page("A")]).replace(b"</ns>", b"</nn>"), "line 13 .mismatched tag"),
        (dump([Page("A")]).replace(b"Some text", b"\x00"), "line 13 .not well-formed"),
        (dump([Page("A")]).replace(b"Some text", b"\xff"), "line 13 .not well-formed"),
        (b"<html><body/></html>", "no MediaWiki dump: its root is <html>"),
        (HEAD.encode() + b"<a>" * 100, "nested 16 deep"),
        (BOMB.encode() + dump([Page("&i;")]), "refused at line 1: it declares a document type"),
        (
            b'<!DOCTYPE m SYSTEM "file:///etc/passwd">' + dump([Page("A")]),
            "refused at line 1: it declares a document type",
        ),
        (HEAD.encode() + b"<page a='" + b"a" * 17_000_000, "a tag or comment is longer"),
        (HEAD.encode() + b"<!--" + b"a" * 17_000_000, "a tag or comment is longer"),
    ],
    ids=[
        "empty",
        "text",
        "cut",
        "tags",
        "null",
        "latin",
        "html",
        "deep",
        "bomb",
        "file",
        "tag",
        "comment",
    ],
)
def test_what_is_no_whole_dump_is_refused(tmp_path: Path, content: bytes, message: str) -> None:
    file = tmp_path / "wiki.xml"
    file.write_bytes(content)
    with pytest.raises(SettingsError, match=message):
        pages_of(file)


@pytest.mark.parametrize("excess", [1, 60_000_000])
def test_page_too_long_is_named_and_costs_no_memory(tmp_path: Path, excess: int) -> None:
    huge = Page("Huge", "a" * (MAX_TEXT_CHARACTERS + excess))
    file = write_dump(tmp_path / "wiki.xml", huge, Page("After"), Page("t" * 2_000))
    tracemalloc.start()
    read, after, long_title = pages_of(file)
    _, peak_bytes = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert (read.title, read.text, after.text) == ("Huge", "", "Some text.")
    assert read.fault == "its text is longer than 2,097,152 characters"
    assert long_title.fault == "its title is longer than 1,024 characters"
    assert peak_bytes < 20_000_000


def test_longest_text_of_mediawiki_is_read(tmp_path: Path) -> None:
    (page,) = pages_of(write_dump(tmp_path / "wiki.xml", Page("A", "a" * MAX_TEXT_CHARACTERS)))
    assert (len(page.text), page.fault) == (MAX_TEXT_CHARACTERS, None)


def test_site_without_an_address_gives_none() -> None:
    assert Site().url("A") is None


def test_memory_does_not_grow_with_the_dump(tmp_path: Path) -> None:
    file = tmp_path / "wiki.xml.gz"
    with gzip.open(file, "wb", compresslevel=1) as stream:
        write_made_up_dump(stream, count=1_000, sections=15)
    with gzip.open(file) as stream:
        assert stream.seek(0, io.SEEK_END) > 20_000_000
    tracemalloc.start()
    pages = sum(1 for _ in read_dump(file, Meter()))
    _, peak_bytes = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert pages == 1_000
    assert peak_bytes < 2_000_000
