"""A snapshot out of dumps: redirects folded, bad pages named, resumable, and in bounded memory."""

import bz2
import gzip
import json
import multiprocessing
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from crag_core.errors import SettingsError
from crag_core.queries.plan import Sought
from crag_core.queries.planning import plan_search
from deployments.backends.dumps.dump_reader import read_dump
from deployments.backends.dumps.page_extract import extract_pages
from deployments.backends.dumps.page_store import PageStore
from deployments.backends.indexes.index_builder import IndexReport, build_index
from deployments.backends.indexes.index_rows import SNAPSHOT
from deployments.backends.indexes.index_sources import Progress, Step
from deployments.backends.indexes.lance_index import IndexKind, open_table, read_manifest
from deployments.backends.indexes.snapshot_search import SnapshotSearch
from deployments.backends.indexes.source_file import Meter
from deployments.settings import PageText
from tests.deployments.dump_files import HEAD, TAIL, Page, dump, made_up_pages, write_dump
from tests.deployments.index_files import FakeEncoder, passages, write_lines

ROOT = Path(__file__).parents[2]


class Interrupt(Exception):
    """Stands for whatever stops a build."""


def build(*files: Path, out: Path, **how: object) -> IndexReport:
    return build_index(files, out, None, schema=SNAPSHOT, **how)  # type: ignore[arg-type]


def rows_of(out: Path) -> list[dict[str, object]]:
    manifest = read_manifest(str(out), IndexKind.SNAPSHOT)
    rows: list[dict[str, object]] = open_table(str(out), manifest).to_arrow().to_pylist()
    return rows


def names_of(out: Path) -> dict[object, list[str]]:
    return {row["title"]: str(row["names"]).split("\n") for row in rows_of(out)}


def stop_at(step: Step, rows: int) -> Callable[[Progress], None]:
    def stop(progress: Progress) -> None:
        if progress.step is step and progress.rows >= rows:
            raise Interrupt

    return stop


def test_page_becomes_a_row_with_its_address_and_revision(tmp_path: Path) -> None:
    page = Page("Łódź (Stadt)", "{{Infobox}}'''Łódź''' liegt in [[Polen]].\n\n== A ==\nB.", revision=42)
    report = build(write_dump(tmp_path / "wiki.xml", page), out=tmp_path / "out")
    (row,) = rows_of(tmp_path / "out")
    assert row == {
        "id": "Łódź_(Stadt)",
        "title": "Łódź (Stadt)",
        "text": "Łódź liegt in Polen.",
        "url": "https://de.wiki.example/wiki/%C5%81%C3%B3d%C5%BA_(Stadt)",
        "searched": "Łódź (Stadt)\nŁódź liegt in Polen.",
        "revision": "42",
        "disambiguation": False,
        "names": "Łódź (Stadt)",
    }
    assert (report.manifest.page_text, report.manifest.rows, report.rows_added) == (PageText.LEAD, 1, 1)


def test_whole_pages_are_another_snapshot_than_introductions(tmp_path: Path) -> None:
    file = write_dump(tmp_path / "wiki.xml", Page("A", "Lead.\n\n== H ==\nBody."))
    out = tmp_path / "out"
    build(file, out=out)
    with pytest.raises(SettingsError, match="--replace"):
        build(file, out=out, page_text=PageText.PAGE)
    build(file, out=out, page_text=PageText.PAGE, replace=True)
    assert [row["text"] for row in rows_of(out)] == ["Lead.\n\nBody."]


def test_redirects_become_names_of_the_page_they_lead_to_in_the_end(tmp_path: Path) -> None:
    file = write_dump(
        tmp_path / "wiki.xml",
        Page("RMS Titanic", redirect="Titanic"),
        Page("The ship", redirect="RMS Titanic"),
        Page("Sinking", "#REDIRECT [[Titanic#Sinking]]"),
        Page("Titanic"),
        Page("Loop A", redirect="Loop B"),
        Page("Loop B", redirect="Loop A"),
        Page("Nowhere", redirect="No such page"),
        Page("To file", redirect="File:A.jpg"),
        Page("Self", redirect="Self"),
        Page("東京", redirect="Tokyo"),
        Page("Tokyo"),
    )
    report = build(file, out=tmp_path / "out")
    assert names_of(tmp_path / "out") == {
        "Titanic": ["Titanic", "RMS Titanic", "Sinking", "The ship"],
        "Tokyo": ["Tokyo", "東京"],
    }
    assert report.manifest.rejected == 0


async def test_page_is_found_by_a_redirect_and_a_disambiguation_page_is_not(tmp_path: Path) -> None:
    file = write_dump(
        tmp_path / "wiki.xml",
        Page("Mercury", "'''Mercury''' may be:\n* [[Mercury (element)]]\n{{disambiguation}}"),
        Page("Mercury (element)", "A metal."),
        Page("Quicksilver", redirect="Mercury (element)"),
    )
    build(file, out=tmp_path / "out")
    snapshot = SnapshotSearch.open(str(tmp_path / "out"))
    for query in ("Mercury", "quicksilver"):
        found = await snapshot.search(plan_search(Sought(query)), limit=5)
        assert [page.document.title for page in found.pages] == ["Mercury (element)"]


AWKWARD = [
    *("AC/DC", "C++", "Q&A (film)", "100% (film)", "What If...?", "M*A*S*H", '"Heroes"', "🍕", "Who's"),
    *(
        "A\\b",
        "=",
        "'",
        "~",
        "^",
        "`",
        "@",
        "$",
        "!",
        "a;b",
        "a,b",
        "a:b",
        "+/-",
        "ﷺ",
        "नेपाल",
        "\u200fא",
    ),
    *("é", "ß", "İ", "ǅ", "a" * 255, "𝔘𝔫𝔦𝔠𝔬𝔡𝔢", "%41", "x'y\"z", "--", "; DROP TABLE pages"),
]


def test_every_title_that_mediawiki_allows_is_a_row(tmp_path: Path) -> None:
    pages = [page for title in AWKWARD for page in (Page(title), Page(f"{title} r", redirect=title))]
    report = build(write_dump(tmp_path / "wiki.xml", *pages), out=tmp_path / "out")
    assert report.rejections == ()
    assert names_of(tmp_path / "out") == {title: [title, f"{title} r"] for title in AWKWARD}


def test_bad_pages_are_named_and_cost_no_good_one(tmp_path: Path) -> None:
    bad = [
        (
            Page("Table", "{|\n| a\n|}"),
            "page 'Table': it has no text outside templates, tables and files",
        ),
        (Page("Empty", ""), "page 'Empty': it has no text outside"),
        (Page("Data", "{}", model="json"), "page 'Data': its content is json, not wikitext"),
        (Page(" "), "page '': it has no title"),
        (Page("Old", namespace=None), "page 'Old': it has no namespace"),
        (Page("First"), "page 'First': an earlier page has its title"),
        (Page("a" * 2_000), "page '': its title is longer than 1,024 characters"),
        (Page("Long", "a" * 2_100_000), "page 'Long': its text is longer than 2,097,152 characters"),
    ]
    others = [Page("Talk:A", namespace=1), Page("Template:A", namespace=10), Page("User:A", namespace=2)]
    file = write_dump(
        tmp_path / "wiki.xml", Page("First", "First."), *(page for page, _ in bad), *others, Page("Last")
    )
    report = build(file, out=tmp_path / "out")
    assert [row["title"] for row in rows_of(tmp_path / "out")] == ["First", "Last"]
    assert rows_of(tmp_path / "out")[0]["text"] == "First."
    assert report.manifest.rejected == len(bad)
    first_line = HEAD.count("\n") + 2
    assert [rejection.line for rejection in report.rejections][:2] == [first_line, first_line + 3]
    for rejection, (_, reason) in zip(report.rejections, bad, strict=True):
        assert rejection.file == "wiki.xml"
        assert rejection.reason.startswith(reason)
    lines = (tmp_path / "out/rejected.jsonl").read_text("utf-8").splitlines()
    assert [json.loads(line)["reason"] for line in lines] == [item.reason for item in report.rejections]


def test_page_that_takes_the_parser_for_ever_is_rejected_alone(tmp_path: Path) -> None:
    pages = [Page("Before"), Page("Hostile", "{|\n" * 100_000), Page("After")]
    file = write_dump(tmp_path / "wiki.xml", *pages)
    before, hostile, after = extract_pages(read_dump(file, Meter()), PageText.LEAD, page_cpu_seconds=1)
    assert (before.text, hostile.text, after.text) == ("Some text.", None, "Some text.")
    assert hostile.fault == "its wikitext could not be parsed within 1 s of CPU time"
    assert multiprocessing.active_children() == []


@pytest.mark.parametrize(
    ("suffix", "compress"),
    [
        (".xml.bz2", bz2.compress),
        (".xml.gz", gzip.compress),
        # Wikimedia's multistream: the head, then groups of pages, each a stream of its own
        (".xml.bz2", lambda whole: b"".join(bz2.compress(line + b"\n") for line in whole.splitlines())),
        (".xml-p1p99.bz2", bz2.compress),
    ],
    ids=["bz2", "gz", "multistream", "part"],
)
def test_zipped_and_plain_dumps_give_the_same_rows(
    tmp_path: Path, suffix: str, compress: Callable[[bytes], bytes]
) -> None:
    whole = dump(made_up_pages(20))
    plain, zipped = tmp_path / "wiki.xml", tmp_path / f"zipped{suffix}"
    plain.write_bytes(whole)
    zipped.write_bytes(compress(whole))
    build(plain, out=tmp_path / "plain")
    build(zipped, out=tmp_path / "out")
    assert rows_of(tmp_path / "out") == rows_of(tmp_path / "plain")
    assert len(rows_of(tmp_path / "out")) == 15


@pytest.mark.parametrize(("suffix", "compress"), [(".bz2", bz2.compress), (".gz", gzip.compress)])
@pytest.mark.parametrize("left", [0.5, 0.999])
def test_cut_off_dump_leaves_no_snapshot(
    tmp_path: Path, suffix: str, compress: Callable[[bytes], bytes], left: float
) -> None:
    file, zipped = tmp_path / f"wiki.xml{suffix}", compress(dump(made_up_pages(500)))
    file.write_bytes(zipped[: int(len(zipped) * left)])
    with pytest.raises(SettingsError, match=r"wiki.xml\S+ cannot be read to its end"):
        build(file, out=tmp_path / "out")
    with pytest.raises(SettingsError, match="holds no finished index"):
        read_manifest(str(tmp_path / "out"), IndexKind.SNAPSHOT)


@pytest.fixture(scope="module")
def many(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A dump of 3,200 pages with a bad one early and a redirect late, and the snapshot built of it."""
    folder = tmp_path_factory.mktemp("many")
    pages = [Page("Bad", ""), *made_up_pages(3_200), Page("Late", redirect="Place 0")]
    build(write_dump(folder / "wiki.xml", *pages), out=folder / "out")
    return folder / "wiki.xml", folder / "out"


@pytest.mark.parametrize(("step", "rows"), [(Step.READING, 1_000), (Step.WRITING, 2_100)])
def test_interrupted_build_ends_with_the_same_rows(
    tmp_path: Path, many: tuple[Path, Path], step: Step, rows: int
) -> None:
    file, whole = many
    out, seen = tmp_path / "out", list[Progress]()
    with pytest.raises(Interrupt):
        build(file, out=out, progress=stop_at(step, rows))
    with pytest.raises(SettingsError, match="finish an interrupted build, with `crag snapshot build`"):
        read_manifest(str(out), IndexKind.SNAPSHOT)
    report = build(file, out=out, progress=seen.append)
    assert rows_of(out) == rows_of(whole)
    assert names_of(out)["Place 0"] == ["Place 0", "Late", "Place 3"]
    assert (out / "rejected.jsonl").read_bytes() == (whole / "rejected.jsonl").read_bytes()
    assert report.rows_added == (2_400 if step is Step.READING else 2_400 - 2_048)
    assert seen[0].rows >= rows - 500
    assert [path.name for path in out.iterdir() if ".pages" in path.name] == []


def test_killed_build_ends_with_the_same_rows(tmp_path: Path, many: tuple[Path, Path]) -> None:
    file, whole = many
    out = tmp_path / "out"
    command = [
        sys.executable,
        "-m",
        "deployments.cli",
        "snapshot",
        "build",
        str(file),
        "--out",
        str(out),
    ]
    building = subprocess.Popen(command, cwd=ROOT, start_new_session=True, stderr=subprocess.DEVNULL)
    deadline = time.monotonic() + 120
    while not any(
        path.name.endswith("-wal") and path.stat().st_size > 500_000 for path in out.glob("*")
    ):
        assert building.poll() is None and time.monotonic() < deadline
        time.sleep(0.02)
    os.killpg(building.pid, signal.SIGKILL)
    building.wait()
    assert not (out / "manifest.json").exists()
    build(file, out=out)
    assert rows_of(out) == rows_of(whole)


def test_progress_is_the_bytes_read_of_all(tmp_path: Path) -> None:
    files = [tmp_path / "a.xml.bz2", tmp_path / "b.xml"]
    files[0].write_bytes(bz2.compress(dump(made_up_pages(1_100))))
    write_dump(files[1], Page("Other"))
    seen = list[Progress]()
    build(*files, out=tmp_path / "out", progress=seen.append)
    total = sum(file.stat().st_size for file in files)
    reading = [progress for progress in seen if progress.step is Step.READING]
    assert {progress.total for progress in reading} == {total}
    assert [progress.done for progress in reading] == sorted(progress.done for progress in reading)
    assert (reading[-1].done, reading[-1].rows) == (total, 826)
    assert seen[-2:] == [Progress(Step.WRITING, 826, 0, 826, 826), Progress(Step.INDEXING, 826, 0)]


def test_pages_of_several_dumps_are_one_snapshot(tmp_path: Path) -> None:
    parts = [
        write_dump(tmp_path / "a.xml", Page("A"), Page("Beta", redirect="B")),
        write_dump(tmp_path / "b.xml", Page("B"), Page("A", "Again."), Page("Alpha", redirect="A")),
    ]
    report = build(*parts, out=tmp_path / "out")
    assert names_of(tmp_path / "out") == {"A": ["A", "Alpha"], "B": ["B", "Beta"]}
    assert [(item.file, item.reason) for item in report.rejections] == [
        ("b.xml", "page 'A': an earlier page has its title")
    ]


def test_store_of_another_build_is_deleted_and_of_a_running_one_refused(tmp_path: Path) -> None:
    out, file = tmp_path / "out", write_dump(tmp_path / "wiki.xml", Page("A"))
    out.mkdir()
    abandoned = out / "snapshot-0123456789abcdef.pages"
    abandoned.touch()
    (out / "my.pages").touch()
    name = build(file, out=out).manifest.table
    assert sorted(path.name for path in out.glob("*.pages*")) == ["my.pages"]
    with (
        PageStore.opened(tmp_path / f"{name}.pages"),
        pytest.raises(SettingsError, match="wait for the other build"),
        PageStore.opened(tmp_path / f"{name}.pages"),
    ):
        pass


def test_dump_is_no_source_of_passages_nor_beside_json_lines(tmp_path: Path) -> None:
    file = write_dump(tmp_path / "wiki.xml", Page("A"))
    lines = write_lines(tmp_path / "a.jsonl", passages(1))
    with pytest.raises(SettingsError, match=r"wiki.xml is a MediaWiki dump.*crag snapshot build"):
        build_index([file], tmp_path / "out", FakeEncoder())
    with pytest.raises(SettingsError, match="not from both"):
        build(file, lines, out=tmp_path / "out")


def test_dump_without_any_usable_page_is_refused(tmp_path: Path) -> None:
    empty = tmp_path / "empty.xml"
    empty.write_text(HEAD + TAIL, "utf-8")
    with pytest.raises(SettingsError, match="empty.xml hold no line or page: nothing to index"):
        build(empty, out=tmp_path / "empty")
    with pytest.raises(
        SettingsError, match="none of the 1 lines or pages of wiki.xml is a row.*page 'A'"
    ):
        build(write_dump(tmp_path / "wiki.xml", Page("A", "")), out=tmp_path / "out")
