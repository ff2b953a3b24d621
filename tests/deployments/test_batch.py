"""Batches: every line in one block, one record per line, parts whole or not there, resumed by part."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from aiohttp import web
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

import deployments.batch.cluster
from benchmarks.patient_client import PatientClient
from crag_core.errors import SettingsError
from deployments.batch.answering import BatchSettings, BlockAnswerer, answer_block
from deployments.batch.blocks import Block, blocks_of, input_files
from deployments.cli import app
from tests.benchmarks.servers import ANSWER, Handler, serving, serving_on_thread


@given(
    st.lists(st.text(alphabet="ab\u2028é ", max_size=5), min_size=1), st.integers(1, 4), st.booleans()
)
def test_every_line_is_in_exactly_one_block(lines: list[str], size: int, ends: bool) -> None:
    import tempfile

    text = "\n".join(lines) + ("\n" if ends else "")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "in.jsonl"
        path.write_bytes(text.encode())
        read = [each for block in blocks_of([path], size) for each in block.read()]
        counted = text.count("\n") + (not text.endswith("\n") and bool(text))
    assert [number for number, _ in read] == list(range(1, counted + 1))
    assert [line.decode() for _, line in read] == (text.split("\n")[:counted] if text else [])


def test_an_input_is_a_file_or_a_folder_of_them(tmp_path: Path) -> None:
    for name in ("b.jsonl", "a.jsonl", "c.txt"):
        (tmp_path / name).write_text("{}\n", "utf-8")
    assert [path.name for path in input_files(tmp_path)] == ["a.jsonl", "b.jsonl"]
    with pytest.raises(SettingsError, match="neither a file of JSON lines nor a folder"):
        input_files(tmp_path / "c")


LINES = [
    {"id": "x", "question": "Who?"},
    {"question": "refused"},
    "no JSON",
    [1],
    {"id": 7, "question": "What?", "pipeline": "rag"},
]


@pytest.fixture
def source(tmp_path: Path) -> Path:
    path = tmp_path / "in.jsonl"
    path.write_text("".join((x if isinstance(x, str) else json.dumps(x)) + "\n" for x in LINES), "utf-8")
    return path


async def answers(request: web.Request) -> web.Response:
    body = await request.json()
    if body["question"] == "refused":
        return web.json_response({"error": {"code": "invalid_question"}}, status=422)
    return web.json_response({**ANSWER, "answer": f"{body['question']} {body.get('pipeline')}"})


def settings(out: Path, url: str) -> BatchSettings:
    return BatchSettings(url, (), str(out), {"pipeline": "crag"}, 4, 5.0, 0.1)


async def answered(block: Block, out: Path, url: str) -> Any:
    async with httpx.AsyncClient(base_url=url, timeout=5) as client:
        return await answer_block(block, PatientClient(client, 0.1), settings(out, url))


async def test_each_line_has_one_record_in_order_whatever_it_is(source: Path, tmp_path: Path) -> None:
    (block,) = blocks_of([source], 10)
    async with serving(answers) as target:
        done = await answered(block, tmp_path, f"http://127.0.0.1:{target.port}")
    records = [json.loads(line) for line in (tmp_path / block.part).read_text("utf-8").splitlines()]
    assert (done.records, done.errors) == (5, 3)
    assert [(record["line"], record["id"], record["error"]) for record in records] == [
        (1, "x", None),
        (2, None, "invalid_question"),
        (3, None, "no JSON object"),
        (4, None, "no JSON object"),
        (5, 7, None),
    ]
    assert [records[0]["answer"], records[4]["answer"]] == ["Who? crag", "What? rag"]


async def test_a_server_that_stays_away_leaves_no_part(source: Path, tmp_path: Path) -> None:
    (block,) = blocks_of([source], 10)
    done = await answered(block, tmp_path, "http://127.0.0.1:9")
    assert done.unfinished == "3 of its 5 lines met no server"
    assert {path.name for path in tmp_path.iterdir()} == {source.name}  # noqa: ASYNC240


@pytest.fixture
def here(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The blocks answered in this process, in place of a cluster's actors."""
    asked: list[str] = []

    def answered(blocks: list[Block], settings: BatchSettings, **_: Any) -> Iterator[dict[str, Any]]:
        from dataclasses import asdict

        for block in blocks:
            asked.append(block.part)
            columns = BlockAnswerer(settings)({"block": [asdict(block)]})
            yield {name: values[0] for name, values in columns.items()}

    monkeypatch.setattr(deployments.batch.cluster, "answered_on_cluster", answered)
    return asked


def run(source: Path, out: Path, port: int, *more: str) -> Any:
    url = f"http://127.0.0.1:{port}"
    arguments = ["batch", str(source), str(out), "--url", url, "--patience-s", "1", *more]
    return CliRunner().invoke(app, arguments)


def test_a_run_resumes_by_part_and_loses_nothing(source: Path, tmp_path: Path, here: list[str]) -> None:
    out = tmp_path / "out"
    with serving_on_thread(answers) as port:
        first = run(source, out, port, "--block", "2", "--json")
        (out / "part-0000-000001.jsonl").unlink()
        second = run(source, out, port, "--block", "2", "--json")
    assert (first.exit_code, second.exit_code) == (0, 0), first.output + second.output
    expected = {"parts": 3, "parts_wanted": 3, "records": 5, "errors": 3}
    assert json.loads(first.stdout) == json.loads(second.stdout) == expected
    assert here[3:] == ["part-0000-000001.jsonl"]
    records = "".join(path.read_text("utf-8") for path in sorted(out.glob("part-*"))).splitlines()
    assert [json.loads(record)["line"] for record in records] == [1, 2, 3, 4, 5]


def flaky(fails: Callable[[], bool]) -> Handler:
    async def handler(request: web.Request) -> web.Response:
        if fails():
            return web.json_response({"error": {"code": "not_ready"}}, status=503)
        return await answers(request)

    return handler


def test_what_met_no_server_is_done_by_the_same_command(
    source: Path, tmp_path: Path, here: list[str]
) -> None:
    down = [True]
    with serving_on_thread(flaky(lambda: down[0])) as port:
        first = run(source, tmp_path / "out", port)
        down[0] = False
        second = run(source, tmp_path / "out", port)
    assert (first.exit_code, second.exit_code) == (1, 0)
    assert "5 records in 1 of 1 parts" in " ".join(second.stdout.split())


def test_another_input_is_refused_in_the_same_folder(
    source: Path, tmp_path: Path, here: list[str]
) -> None:
    with serving_on_thread(answers) as port:
        run(source, tmp_path / "out", port)
        source.write_text('{"question": "Another?"}\n', "utf-8")
        again = run(source, tmp_path / "out", port)
    assert again.exit_code == 2
    assert "holds a run of other settings" in " ".join(again.stderr.split())
