"""Building an index: bad lines, resuming, and that nobody ever sees a half-built one."""

import bz2
import gzip
import json
from collections.abc import Callable
from pathlib import Path

import lancedb
import pytest

from crag_core.errors import SettingsError
from deployments.backends.indexes.index_builder import build_index
from deployments.backends.indexes.index_rows import SNAPSHOT, Rejection
from deployments.backends.indexes.index_sources import Progress, Step
from deployments.backends.indexes.lance_index import IndexKind, Manifest, open_table, read_manifest
from tests.deployments.index_files import FakeEncoder, passages, write_lines


class Interrupt(Exception):
    """Stands for whatever stops a build."""


def stop_at(rows: int) -> Callable[[Progress], None]:
    """A progress callback that stops the build once that many rows are embedded."""

    def stop(progress: Progress) -> None:
        if progress.rows >= rows:
            raise Interrupt

    return stop


def rows_of(out: Path) -> list[dict[str, object]]:
    manifest = read_manifest(str(out), IndexKind.PASSAGES)
    rows: list[dict[str, object]] = open_table(str(out), manifest).to_arrow().to_pylist()
    return rows


def tables_of(out: Path) -> set[str]:
    return set(lancedb.connect(str(out)).list_tables().tables)


def test_manifest_says_what_the_index_was_built_from(tmp_path: Path) -> None:
    file = write_lines(tmp_path / "corpus.jsonl", passages(3))
    report = build_index([file], tmp_path / "index", FakeEncoder())
    written = json.loads((tmp_path / "index" / "manifest.json").read_text("utf-8"))
    assert written["sources"][0].pop("sha256")
    assert written == {
        "format": 1,
        "kind": "passages",
        "encoder": "fake",
        "encoder_sha256": "fake",
        "pooling": "mean",
        "normalise": False,
        "dimension": 8,
        "text_template": "{title}\n{text}",
        "rows": 3,
        "rejected": 0,
        "sources": [{"name": "corpus.jsonl"}],
    }
    assert report.manifest == Manifest.model_validate_json(
        (tmp_path / "index/manifest.json").read_bytes()
    )


BAD_LINES = [
    (b"no json", "line: Invalid JSON"),
    (b'{"text": "cut', "line: Invalid JSON"),
    (b'["a list"]', "line: Input should be an object"),
    (b'{"title": "No text"}', "text: Field required"),
    (b'{"text": null}', "text: Input should be a valid string"),
    (b'{"text": 7}', "text: Input should be a valid string"),
    (b'{"text": " \\n"}', "text: Input should not be blank"),
    (b'{"text": "a", "title": ["b"]}', "title: Input should be a valid string"),
    (b'{"text": "a", "id": true}', "id: Input should be a valid string"),
    (b'{"text": "a", "id": ""}', "id: Input should not be blank"),
    (b'{"text": "a", "url": 1}', "url: Input should be a valid string"),
    (b'{"text": "a\xff"}', "line: Invalid JSON: invalid unicode code point"),
    (b'{"text": "half a pair \\ud800"}', "line: Invalid JSON"),
    (b"[" * 100_000, "line: Invalid JSON: recursion limit exceeded"),
    (b'{"text": "b", "id": 1}', "an earlier row has the id '1'"),
]


def test_bad_lines_are_named_and_cost_no_good_one(tmp_path: Path) -> None:
    good_first, good_last = b'{"text": "first", "id": "1"}', b'{"text": "last", "id": 2}'
    file = tmp_path / "corpus.jsonl"
    file.write_bytes(b"\n".join([good_first, *(line for line, _ in BAD_LINES), b"", good_last]))
    report = build_index([file], tmp_path / "index", FakeEncoder())
    assert [row["id"] for row in rows_of(tmp_path / "index")] == ["1", "2"]
    assert report.manifest.rejected == len(BAD_LINES)
    for number, (rejection, (_, reason)) in enumerate(
        zip(report.rejections, BAD_LINES, strict=True), start=2
    ):
        assert (rejection.file, rejection.line) == ("corpus.jsonl", number)
        assert rejection.reason.startswith(reason)
    lines = (tmp_path / "index" / "rejected.jsonl").read_text("utf-8").splitlines()
    assert [Rejection(**json.loads(line)) for line in lines] == list(report.rejections)


def test_report_names_the_first_rejections_and_the_file_all(tmp_path: Path) -> None:
    file = tmp_path / "corpus.jsonl"
    file.write_bytes(b"bad\n" * 50 + b'{"text": "good"}\n')
    report = build_index([file], tmp_path / "index", FakeEncoder())
    assert (len(report.rejections), report.manifest.rejected) == (20, 50)
    assert len((tmp_path / "index" / "rejected.jsonl").read_bytes().splitlines()) == 50


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "corpus.jsonl hold no line or page"),
        (b"x\ny\n", "none of the 2 lines or pages of corpus.jsonl is a row.*line 1: line: Invalid JSON"),
    ],
)
def test_files_without_any_row_are_refused(tmp_path: Path, content: bytes, message: str) -> None:
    file = tmp_path / "corpus.jsonl"
    file.write_bytes(content)
    with pytest.raises(SettingsError, match=message):
        build_index([file], tmp_path / "index", FakeEncoder())
    with pytest.raises(SettingsError, match="holds no finished index"):
        read_manifest(str(tmp_path / "index"), IndexKind.PASSAGES)


def test_lines_end_at_line_feed_alone(tmp_path: Path) -> None:
    text = "one\u2028two\u2029three\x85four\x0cfive\rsix"
    file = tmp_path / "corpus.jsonl"
    lines = [json.dumps({"text": text}, ensure_ascii=False), json.dumps({"text": "other"})]
    file.write_bytes(b"\xef\xbb\xbf" + "\r\n".join(lines).encode())
    build_index([file], tmp_path / "index", FakeEncoder())
    assert [row["text"] for row in rows_of(tmp_path / "index")] == [text, "other"]


@pytest.mark.parametrize(("suffix", "compress"), [(".gz", gzip.compress), (".bz2", bz2.compress)])
def test_zipped_and_plain_files_give_the_same_rows(
    tmp_path: Path, suffix: str, compress: Callable[[bytes], bytes]
) -> None:
    plain = write_lines(tmp_path / "corpus.jsonl", passages(5))
    zipped = tmp_path / f"corpus.jsonl{suffix}"
    zipped.write_bytes(compress(plain.read_bytes()))
    for file, out in ((plain, "plain"), (zipped, "zipped")):
        build_index([file], tmp_path / out, FakeEncoder())
    assert rows_of(tmp_path / "plain") == rows_of(tmp_path / "zipped")


def test_cut_off_gzip_is_refused_and_leaves_no_index(tmp_path: Path) -> None:
    file = tmp_path / "corpus.jsonl.gz"
    file.write_bytes(gzip.compress(write_lines(tmp_path / "c", passages(500)).read_bytes())[:-50])
    with pytest.raises(SettingsError, match=r"corpus.jsonl.gz cannot be read to its end"):
        build_index([file], tmp_path / "index", FakeEncoder())
    assert not (tmp_path / "index" / "manifest.json").exists()


def test_missing_file_is_refused_by_name(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="nowhere.jsonl cannot be read: No such file"):
        build_index([tmp_path / "nowhere.jsonl"], tmp_path / "index", FakeEncoder())


def test_ids_are_the_same_whatever_else_the_file_holds(tmp_path: Path) -> None:
    rows = passages(4)
    build_index([write_lines(tmp_path / "a.jsonl", rows)], tmp_path / "a", FakeEncoder())
    build_index([write_lines(tmp_path / "b.jsonl", rows[2:])], tmp_path / "b", FakeEncoder())
    assert [row["id"] for row in rows_of(tmp_path / "a")][2:] == [
        row["id"] for row in rows_of(tmp_path / "b")
    ]


def test_interrupted_build_is_no_index_and_goes_on_where_it_stopped(tmp_path: Path) -> None:
    lines = [json.dumps(row) for row in passages(5_000)]
    lines[3:3] = ["bad"]
    file = tmp_path / "corpus.jsonl"
    file.write_text("\n".join(lines), "utf-8")
    out, seen = tmp_path / "index", list[Progress]()
    with pytest.raises(Interrupt):
        build_index([file], out, FakeEncoder(), progress=stop_at(3_000))
    with pytest.raises(SettingsError, match="finish an interrupted build, with `crag index build`"):
        read_manifest(str(out), IndexKind.PASSAGES)

    encoder = FakeEncoder()
    report = build_index([file], out, encoder, progress=seen.append)
    assert report.rows_added == len(encoder.encoded) == 5_000 - 2_048
    size = file.stat().st_size
    assert seen[-2:] == [
        Progress(Step.READING, rows=5_000, rejected=1, done=size, total=size),
        Progress(Step.INDEXING, rows=5_000, rejected=1),
    ]
    assert report.rejections[0].line == 4
    resumed = rows_of(out)
    build_index([file], tmp_path / "fresh", FakeEncoder())
    assert resumed == rows_of(tmp_path / "fresh")


def test_interrupted_build_of_a_changed_file_starts_over(tmp_path: Path) -> None:
    file, out = write_lines(tmp_path / "corpus.jsonl", passages(3_000)), tmp_path / "index"
    with pytest.raises(Interrupt):
        build_index([file], out, FakeEncoder(), progress=stop_at(3_000))
    write_lines(file, passages(10))
    report = build_index([file], out, FakeEncoder())
    assert report.rows_added == report.manifest.rows == len(rows_of(out)) == 10
    assert tables_of(out) == {report.manifest.table}


def test_same_files_and_encoder_again_are_nothing_to_do(tmp_path: Path) -> None:
    file, out = write_lines(tmp_path / "corpus.jsonl", passages(3)), tmp_path / "index"
    first = build_index([file], out, FakeEncoder())
    encoder = FakeEncoder()
    again = build_index([file], out, encoder)
    assert (again.manifest, again.rows_added, encoder.encoded) == (first.manifest, 0, [])


@pytest.mark.parametrize("encoder", [FakeEncoder(), FakeEncoder(fingerprint="other")])
def test_old_index_serves_until_the_new_one_is_finished(tmp_path: Path, encoder: FakeEncoder) -> None:
    old, new = passages(3), passages(5)
    file, out = write_lines(tmp_path / "corpus.jsonl", old), tmp_path / "index"
    build_index([file], out, FakeEncoder())
    manifest = read_manifest(str(out), IndexKind.PASSAGES)
    serving = open_table(str(out), manifest)
    write_lines(file, new)
    with pytest.raises(Interrupt):
        build_index([file], out, encoder, replace=True, progress=stop_at(1))
    assert read_manifest(str(out), IndexKind.PASSAGES) == manifest
    assert len(rows_of(out)) == 3
    report = build_index([file], out, encoder, replace=True)
    assert report.replaced == manifest
    assert len(rows_of(out)) == 5
    assert len(serving.to_arrow()) == 3
    assert tables_of(out) == {manifest.table, report.manifest.table}


def test_finished_index_is_replaced_only_when_told_to(tmp_path: Path) -> None:
    file, out = write_lines(tmp_path / "corpus.jsonl", passages(3)), tmp_path / "index"
    build_index([file], out, FakeEncoder())
    write_lines(file, passages(5))
    with pytest.raises(SettingsError, match=r"kind passages with 3 rows of corpus\.jsonl.*--replace"):
        build_index([file], out, FakeEncoder())
    assert len(rows_of(out)) == 3


def test_manifest_of_something_else_is_replaced_only_when_told_to(tmp_path: Path) -> None:
    file, out = write_lines(tmp_path / "corpus.jsonl", passages(3)), tmp_path / "index"
    out.mkdir()
    (out / "manifest.json").write_text('{"format": 2}', "utf-8")
    with pytest.raises(SettingsError, match="says of no index that this version knows.*--replace"):
        build_index([file], out, FakeEncoder())
    build_index([file], out, FakeEncoder(), replace=True)
    assert len(rows_of(out)) == 3


def test_tables_of_others_in_the_folder_are_left_alone(tmp_path: Path) -> None:
    out = tmp_path / "index"
    lancedb.connect(str(out)).create_table("precious", [{"a": 1}])
    build_index([write_lines(tmp_path / "corpus.jsonl", passages(3))], out, FakeEncoder())
    assert "precious" in tables_of(out)


def test_index_of_another_kind_is_not_overwritten(tmp_path: Path) -> None:
    file, out = write_lines(tmp_path / "corpus.jsonl", passages(3)), tmp_path / "index"
    build_index([file], out, FakeEncoder())
    with pytest.raises(
        SettingsError, match="holds an index of kind passages: build the snapshot elsewhere"
    ):
        build_index([file], out, None, schema=SNAPSHOT)


def test_folder_that_cannot_be_made_is_refused(tmp_path: Path) -> None:
    file = write_lines(tmp_path / "corpus.jsonl", passages(3))
    with pytest.raises(SettingsError, match="corpus.jsonl cannot be written"):
        build_index([file], file, FakeEncoder())


def test_every_row_is_in_every_search_index(tmp_path: Path) -> None:
    file, out = write_lines(tmp_path / "corpus.jsonl", passages(2_500)), tmp_path / "index"
    manifest = build_index([file], out, FakeEncoder()).manifest
    table = open_table(str(out), manifest)
    stats = {index.name: table.index_stats(index.name) for index in table.list_indices()}
    assert set(stats) == {"searched_idx", "vector_idx"}
    for index in stats.values():
        assert index is not None
        assert (index.num_indexed_rows, index.num_unindexed_rows) == (2_500, 0)
