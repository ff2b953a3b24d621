"""A quality run asks each question once, keeps what it has, and survives its server."""

import asyncio
import json
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from typer.testing import CliRunner

from benchmarks.quality.ledger import Ledger, Row
from benchmarks.quality.methods import Method, request_id, request_of
from benchmarks.quality.question_sets import read_set
from benchmarks.quality.search_side import SearchSide
from benchmarks.quality.session import RunSettings, run
from benchmarks.run_folder import ROWS
from deployments.cli import app
from tests.benchmarks.servers import ANSWER, Handler, free_port, serving_on_thread

ROOT = Path(__file__).parents[2]
QUESTIONS = [("Who wrote It?", "King"), ("What is its genre?", "horror"), ("Who is Ann?", "a poet")]
RUN = {"format": 1, "documents": "given"}


@pytest.fixture(autouse=True)
def _signals_as_before() -> Iterator[None]:
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.fixture
def data(tmp_path: Path) -> Path:
    folder = tmp_path / "data"
    folder.mkdir()
    rows = [
        {
            "id": str(i),
            "question": text,
            "answers": [gold],
            "internal": [{"title": "T", "text": "A King."}],
        }
        for i, (text, gold) in enumerate(QUESTIONS)
    ]
    (folder / "popqa.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")
    return folder


def settings(data: Path, port: int, **changes: Any) -> RunSettings:
    fields: dict[str, Any] = {
        "data": data, "names": ("popqa",), "methods": (Method.RAG, Method.CRAG), "given": True,
        "url": f"http://127.0.0.1:{port}", "headers": (), "config": None, "search": None, "limit": None,
        "max_new_tokens": None, "concurrency": 2, "timeout_s": 5.0, "patience_s": 0.1,
    }  # fmt: skip
    return RunSettings(**{**fields, **changes})


def answering(text: Callable[[dict[str, Any]], str], seen: list[dict[str, Any]]) -> Handler:
    async def answer(request: web.Request) -> web.Response:
        body = await request.json()
        seen.append({**body, "id": request.headers["x-request-id"]})
        action = "correct" if body["pipeline"] == "crag" else None
        return web.json_response({**ANSWER, "answer": text(body), "action": action})

    return answer


def quietly(done: int, wanted: int, failures: int) -> None:
    """No progress is shown."""


def test_every_question_is_asked_once_by_every_method_and_judged_by_id(
    data: Path, tmp_path: Path
) -> None:
    seen: list[dict[str, Any]] = []
    gold = dict(QUESTIONS)
    right = answering(lambda body: gold[body["question"]] if body["pipeline"] == "crag" else "no", seen)
    with serving_on_thread(right) as port:
        (results,) = asyncio.run(run(settings(data, port), tmp_path / "out", quietly))
        asyncio.run(run(settings(data, port), tmp_path / "out", quietly))
    assert sorted((body["id"], body["pipeline"]) for body in seen) == sorted(
        (f"popqa.{i}", pipeline) for i in range(3) for pipeline in ("rag", "crag")
    )
    assert all(body["documents"] == [{"text": "A King.", "title": "T"}] for body in seen)
    assert (results.estimate(Method.CRAG).mean, results.estimate(Method.RAG).mean) == (1.0, 0.0)
    assert [row.action for row in results.rows[Method.CRAG]] == ["correct"] * 3


def test_a_failure_counts_as_wrong_and_is_asked_again(data: Path, tmp_path: Path) -> None:
    async def fails(request: web.Request) -> web.Response:
        body = await request.json()
        if body["question"] == "Who is Ann?":
            return web.json_response({"error": {"code": "generation_failed"}}, status=500)
        return web.json_response({**ANSWER, "answer": "King of horror"})

    seen: list[dict[str, Any]] = []
    with serving_on_thread(fails) as port:
        (results,) = asyncio.run(run(settings(data, port), tmp_path, quietly))
    assert results.estimate(Method.RAG).mean == pytest.approx(2 / 3)
    assert [row.error for row in results.rows[Method.RAG]] == [None, None, "generation_failed"]
    with serving_on_thread(answering(lambda _: "a poet", seen)) as port:
        (results,) = asyncio.run(run(settings(data, port), tmp_path, quietly))
    assert {body["question"] for body in seen} == {"Who is Ann?"}
    assert results.estimate(Method.RAG).mean == 1.0


def test_a_server_that_restarts_during_the_run_loses_nothing(data: Path, tmp_path: Path) -> None:
    seen: list[dict[str, Any]] = []
    port = free_port()
    wanted = settings(data, port, patience_s=60.0, concurrency=1)
    answers = answering(lambda _: "King", seen)
    stopped = asyncio.Event()

    async def through_a_restart() -> Any:
        def after_two(done: int, wanted: int, failures: int) -> None:
            if done == 2:
                stopped.set()

        first = serving_on_thread(answers, port=port)
        await asyncio.to_thread(first.__enter__)
        running = asyncio.create_task(run(wanted, tmp_path, after_two))
        await stopped.wait()
        await asyncio.to_thread(first.__exit__, None, None, None)
        with serving_on_thread(answers, port=port):
            return await running

    (results,) = asyncio.run(through_a_restart())
    assert all(row.error is None for rows in results.rows.values() for row in rows)
    assert len(results.rows[Method.CRAG]) == 3


def test_pages_from_elsewhere_than_the_run_says_end_it(data: Path, tmp_path: Path) -> None:
    async def searched(_: web.Request) -> web.Response:
        trace = {**ANSWER["trace"], "searched": [{"document_id": "snapshot:1"}]}
        return web.json_response({**ANSWER, "trace": trace})

    with (
        serving_on_thread(searched) as port,
        pytest.raises(ValueError, match="searched snapshot, but this run says --search replay"),
    ):
        asyncio.run(run(settings(data, port, search=SearchSide.REPLAY), tmp_path, quietly))


def test_an_interrupted_run_keeps_its_answers_and_goes_on(data: Path, tmp_path: Path) -> None:
    seen: list[dict[str, Any]] = []
    stalls = threading.Event()

    async def stalling(request: web.Request) -> web.Response:
        if len(seen) >= 2 and not stalls.is_set():
            await asyncio.sleep(60)
        return await answering(lambda _: "King", seen)(request)  # type: ignore[return-value]  # its own

    with serving_on_thread(stalling) as port:
        command = [
            sys.executable, "-m", "benchmarks", "quality", "--data", str(data), "--method", "rag",
            "--url", f"http://127.0.0.1:{port}", "--out", str(tmp_path), "--concurrency", "1",
        ]  # fmt: skip
        running = subprocess.Popen(command, cwd=ROOT, stderr=subprocess.PIPE, text=True)
        rows = tmp_path / ROWS
        while not rows.exists() or rows.read_bytes().count(b"\n") < 2:
            assert running.poll() is None, running.stderr and running.stderr.read()
            time.sleep(0.05)
        running.send_signal(signal.SIGINT)
        _, told = running.communicate(timeout=60)
        stalls.set()
        again = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True)
    assert running.returncode == 130 and "the same command goes on from" in told
    assert sorted(body["question"] for body in seen) == sorted(text for text, _ in QUESTIONS)
    assert "3 questions" in again.stdout


def row(question: str, **fields: Any) -> Row:
    return Row("popqa", Method.RAG, question, 0.1, 1, **fields)


def test_what_an_interruption_left_of_a_row_is_cut_off(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path, RUN)
    ledger.add(row("1", reply=ANSWER))
    ledger.close()
    whole = (tmp_path / ROWS).read_bytes()
    (tmp_path / ROWS).write_bytes(whole + whole[: len(whole) // 2])
    again = Ledger(tmp_path, RUN)
    again.add(row("2", reply=ANSWER))
    again.close()
    assert [key[2] for key in Ledger(tmp_path, RUN).rows] == ["1", "2"]


def test_a_broken_row_amid_others_is_refused_with_its_line(tmp_path: Path) -> None:
    (tmp_path / ROWS).write_text('{"set": "popqa"}\n', "utf-8")
    with pytest.raises(ValueError, match=r"rows\.jsonl:1 is no row"):
        Ledger(tmp_path, RUN)


def test_a_folder_with_a_run_of_other_settings_is_refused(tmp_path: Path) -> None:
    Ledger(tmp_path, RUN).close()
    with pytest.raises(ValueError, match="documents was 'given', now 'retrieved'"):
        Ledger(tmp_path, {**RUN, "documents": "retrieved"})


def test_methods_make_the_requests_they_are_named_for(data: Path) -> None:
    question = read_set(data, "popqa").questions[0]

    def body(method: Method, **options: Any) -> Mapping[str, Any]:
        return request_of(method, question, options, given=True)

    assert body(Method.RAG_TOP1)["options"] == {"force_answer": True, "rag_documents": 1}
    assert body(Method.CRAG_NO_WEB)["options"]["search"] is False
    assert "documents" not in body(Method.NO_RETRIEVAL)
    assert body(Method.COMPACT, max_new_tokens=9)["options"]["max_new_tokens"] == 9
    assert "documents" not in request_of(Method.RAG, question, {}, given=False)


def test_ids_that_no_header_may_carry_are_hashed() -> None:
    assert request_id("arc", "Mercury 7\n") != request_id("arc", "Mercury 8\n")
    assert len(request_id("s" * 90, "é")) <= 64


def test_the_command_reports_resumes_and_gates(data: Path, tmp_path: Path) -> None:
    seen: list[dict[str, Any]] = []
    out, baseline = tmp_path / "out", tmp_path / "baseline.json"
    common = ["--data", str(data), "--method", "rag", "--method", "crag", "--out", str(out)]
    gold = dict(QUESTIONS)
    with serving_on_thread(answering(lambda body: gold[body["question"]], seen)) as port:
        url = ["--url", f"http://127.0.0.1:{port}"]
        first = CliRunner().invoke(app, ["quality", *common, *url, "--write-baseline", str(baseline)])
        again = CliRunner().invoke(
            app, ["quality", *common, *url, "--baseline", str(baseline), "--json"]
        )
    assert first.exit_code == 0, first.output
    assert "## popqa: 3 questions, documents given, search nothing" in first.stdout
    assert len(seen) == 6
    report = json.loads(again.stdout)
    assert report["sets"][0]["methods"]["crag"]["match"]["mean"] == 1.0
    assert all(line.startswith("ok") for line in report["baseline"])
    assert {"report.md", "report.json", "popqa-methods.svg", "popqa-actions.svg"} <= {
        path.name for path in out.iterdir()
    }


@pytest.mark.parametrize(("lost", "code", "told"), [(5, 0, "ok: questions"), (6, 1, "WORSE: questions")])
def test_the_command_fails_when_more_is_lost_than_noise_takes(
    tmp_path: Path, lost: int, code: int, told: str
) -> None:
    """Greedy answers of another machine may differ here and there; six lost and none won is no noise."""
    rows = [{"id": str(i), "question": f"Who is {i}?", "answers": ["Ann"]} for i in range(24)]
    (tmp_path / "questions.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")
    baseline = tmp_path / "baseline.json"
    wrong = {row["question"] for row in rows[:lost]}
    common = ["quality", "--data", str(tmp_path), "--name", "questions", "--method", "crag"]
    with serving_on_thread(answering(lambda _: "Ann", [])) as port:
        url = ["--url", f"http://127.0.0.1:{port}"]
        before = CliRunner().invoke(app, [*common, *url, "--write-baseline", str(baseline)])
    with serving_on_thread(
        answering(lambda body: "" if body["question"] in wrong else "Ann", [])
    ) as port:
        url = ["--url", f"http://127.0.0.1:{port}"]
        now = CliRunner().invoke(app, [*common, *url, "--baseline", str(baseline)])
    assert before.exit_code == 0, before.output
    assert now.exit_code == code, now.output
    assert told in now.stderr


def test_wrong_use_is_told_in_one_sentence(data: Path) -> None:
    absent = CliRunner().invoke(app, ["quality", "--data", str(data), "--url", "http://127.0.0.1:9"])
    assert absent.exit_code == 2 and "start one, or answer in process with --config" in absent.stderr
    with serving_on_thread(answering(lambda _: "", [])) as port:
        common = ["quality", "--data", str(data), "--url", f"http://127.0.0.1:{port}"]
        baseline = CliRunner().invoke(app, [*common, "--method", "ircot"])
        unknown = CliRunner().invoke(app, [*common, "--name", "2wiki"])
    assert baseline.exit_code == 2 and "ircot is not part of the HTTP API" in baseline.stderr
    assert unknown.exit_code == 2 and "holds neither 2wiki.jsonl" in unknown.stderr
