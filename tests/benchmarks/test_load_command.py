"""The command from end to end: against servers on a thread, with real sending processes."""

import asyncio
import json
import re
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from typer.testing import CliRunner

from benchmarks.load.target import TargetError, parse_target
from deployments.cli import app
from tests.benchmarks.servers import (
    ANSWER,
    RANKING,
    Handler,
    answers,
    chunk,
    free_port,
    serving_on_thread,
)

ROOT = Path(__file__).parents[2]
SHORT = ("--duration-s", "0.6", "--warmup-s", "0.2", "--rate", "40", "--workload", "w4")


@pytest.fixture(autouse=True)
def _signals_as_before() -> Iterator[None]:
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


def run(port: int, *arguments: str | Path) -> Any:
    url = f"http://127.0.0.1:{port}"
    return CliRunner().invoke(app, ["load", "--url", url, *map(str, (*SHORT, *arguments))])


def test_a_run_is_reported_in_every_form(tmp_path: Path) -> None:
    with serving_on_thread(answers) as port:
        result = run(port, "--workload", "w2", "--slo-s", "1", "--out", tmp_path / "out")
    assert result.exit_code == 0, result.output
    assert "keeps to the SLO (99 % answer within 1 s)" in result.stdout
    assert {path.name for path in (tmp_path / "out").iterdir()} == {
        "report.json", "report.md", "report.html", "records.jsonl",
    }  # fmt: skip
    report = json.loads((tmp_path / "out/report.json").read_text("utf-8"))
    summary = report["summary"]
    assert summary["outcomes"] == {"ok": summary["due"]} and report["exit_code"] == 0
    assert summary["actions"] == {"correct": summary["due"]}
    assert set(summary["stages"]) == {"retrieve", "generate", "outside the stages"}
    records = (tmp_path / "out/records.jsonl").read_text("utf-8").splitlines()
    assert len(records) >= summary["due"] > 10
    replay = run(port, "--arrivals", "trace", "--trace", tmp_path / "out/records.jsonl", "--wait-s", "0")
    assert replay.exit_code == 3, "the records are a trace; only the server is gone"


def test_the_page_needs_nothing_beside_it_and_runs_nothing(tmp_path: Path) -> None:
    with serving_on_thread(answers) as port:
        run(port, "--out", tmp_path)
    page = (tmp_path / "report.html").read_text("utf-8")
    assert len(re.findall(r'src="data:image/svg\+xml;base64,', page)) == page.count("<img ") >= 4
    assert "default-src 'none'" in page
    assert not re.search(r"<script|<link|\bon\w+=|(src|href)=\"(?!data:)", page)


def test_two_processes_send_each_request_once() -> None:
    numbers: list[str] = []

    async def note(request: web.Request) -> web.Response:
        numbers.append(request.headers["x-request-id"].rpartition("-")[2])
        return web.json_response(RANKING)

    with serving_on_thread(note) as port:
        result = run(port, "--processes", "2", "--json")
    summary = json.loads(result.stdout)["summary"]
    assert sorted(map(int, numbers)) == list(range(len(numbers)))
    assert summary["outcomes"] == {"ok": summary["due"]}


async def _sheds(_: web.Request) -> web.Response:
    return web.json_response({"error": {"code": "overloaded"}}, status=429)


async def _garbage(_: web.Request) -> web.Response:
    return web.Response(body=b"\x00\xff<html>")


async def _closes(request: web.Request) -> web.Response:
    assert request.transport is not None
    request.transport.close()
    return web.Response()


@pytest.mark.parametrize(
    ("handler", "words"),
    [
        (_sheds, "ended as shed (overloaded)"),
        (_garbage, "ended as bad_answer (not_a_ranking)"),
        (_closes, "ended as connection_error (closed)"),
    ],
)
def test_a_server_that_answers_nobody_has_a_report_and_exit_code_3(handler: Handler, words: str) -> None:
    with serving_on_thread(handler) as port:
        result = run(port)
    assert result.exit_code == 3
    assert "no request was answered" in result.stdout and words in result.stdout


def test_a_server_that_closes_in_mid_stream_has_a_report_and_exit_code_3() -> None:
    async def begins(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers={"content-type": "text/event-stream"})
        await response.prepare(request)
        await response.write(chunk("Black"))
        assert request.transport is not None
        request.transport.close()
        return response

    with serving_on_thread(begins) as port:
        result = run(port, "--workload", "w2", "--stream")
    assert result.exit_code == 3
    assert "no request was answered" in result.stdout
    assert "ended as broken_stream (cut)" in result.stdout


def test_a_server_that_is_down_has_a_report_and_exit_code_3(tmp_path: Path) -> None:
    result = run(free_port(), "--wait-s", "0.3", "--out", tmp_path)
    assert result.exit_code == 3
    assert "nothing was sent: no server answers at" in result.stdout
    assert json.loads((tmp_path / "report.json").read_text("utf-8"))["summary"] is None


def test_a_server_that_is_slow_to_start_is_waited_for() -> None:
    with serving_on_thread(answers, after_s=1.5) as port:
        assert run(port, "--wait-s", "20").exit_code == 0


def test_a_server_that_is_not_ready_is_waited_for_and_named() -> None:
    states = {"retriever": {"state": "ready"}, "generator": {"state": "waiting"}}

    async def not_ready(_: web.Request) -> web.Response:
        return web.json_response({"ready": False, "stages": states}, status=503)

    with serving_on_thread(answers, ready=not_ready) as port:
        result = run(port, "--wait-s", "0.5")
    assert result.exit_code == 3
    assert "is not ready: generator (waited 0.5 s)" in result.stdout


def test_a_server_without_readiness_is_taken_as_ready() -> None:
    async def not_found(_: web.Request) -> web.Response:
        return web.Response(status=404)

    with serving_on_thread(answers, ready=not_found) as port:
        assert run(port).exit_code == 0


def test_an_slo_that_nothing_meets_is_exit_code_1() -> None:
    result_of: dict[str, Any] = {}
    with serving_on_thread(answers) as port:
        result_of["run"] = run(port, "--slo-s", "0.000001")
    assert result_of["run"].exit_code == 1
    assert "misses the SLO" in result_of["run"].stdout


def test_a_rate_of_0_says_that_nothing_was_due() -> None:
    with serving_on_thread(answers) as port:
        result = run(port, "--rate", "0")
    assert result.exit_code == 3
    assert "nothing was measured: the rate is 0" in result.stdout


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--url", "http://example.org"), "name it with --allow-host"),
        (("--url", "ftp://127.0.0.1"), "no http or https address"),
        (("--url", "http://a:b@127.0.0.1"), "no credentials"),
        (("--rate", "-1"), "arrivals.rate_per_s"),
        (("--rate", "nan"), "arrivals.rate_per_s"),
        (("--duration-s", "1e9"), "duration_s"),
        (("--max-requests", "100000000"), "max_requests"),
        (("--arrivals", "trace"), "--trace FILE"),
        (("--workload", "data"), "--data FOLDER"),
        (("--find-max",), "--find-max needs an SLO"),
        (("--slo-first-token-s", "1"), "needs --stream"),
        (("--find-max", "--slo-s", "1", "--arrivals", "closed"), "sets the rate itself"),
    ],
)
def test_what_cannot_work_is_refused_in_a_sentence(arguments: tuple[str, ...], words: str) -> None:
    result = run(free_port(), *arguments)
    assert result.exit_code == 2
    assert words in result.stderr and "Traceback" not in result.output


@pytest.mark.parametrize("host", ["127.0.0.1", "127.8.9.10", "localhost", "[::1]"])
def test_loopback_needs_no_permission(host: str) -> None:
    assert parse_target(f"http://{host}:1", ()).port == 1


def test_other_hosts_are_allowed_by_name_alone() -> None:
    assert (
        parse_target("https://Example.org/base/", ["example.org"]).url == "https://example.org:443/base"
    )
    for url in ("http://example.org.evil.net", "http://10.0.0.1", "http://0.0.0.0", "http://[::]"):
        with pytest.raises(TargetError):
            parse_target(url, ["example.org"])


def test_headers_come_from_a_file_and_never_show(tmp_path: Path) -> None:
    seen: list[str] = []

    async def note(request: web.Request) -> web.Response:
        seen.append(request.headers["Authorization"])
        return web.json_response(RANKING)

    secret = tmp_path / "headers"
    secret.write_text("Authorization: Bearer s3cret\n", "utf-8")
    with serving_on_thread(note) as port:
        result = run(port, "--headers", secret, "--out", tmp_path / "out")
    assert result.exit_code == 0 and set(seen) == {"Bearer s3cret"}
    written = "".join(path.read_text("utf-8") for path in (tmp_path / "out").iterdir())
    assert "s3cret" not in result.output + written
    secret.write_text("Authorization: Bearer s3cret\x01\n", "utf-8")
    refused = run(free_port(), "--headers", secret)
    assert refused.exit_code == 2 and "s3cret" not in refused.output


def test_the_highest_rate_of_a_server_that_sheds_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """One request at a time, 25 ms each, and 429 at once for whom it would keep waiting."""
    monkeypatch.setattr("benchmarks.load.find_max._CONFIRMATIONS", 1)  # that they are made is seen there
    free_at_s = 0.0

    async def serves_40_a_second(_: web.Request) -> web.Response:
        nonlocal free_at_s
        now_s = asyncio.get_running_loop().time()
        free_at_s = max(free_at_s, now_s) + 0.025
        if free_at_s - now_s > 0.2:
            free_at_s -= 0.025
            return await _sheds(_)
        await asyncio.sleep(free_at_s - now_s)
        return web.json_response(ANSWER | RANKING)

    with serving_on_thread(serves_40_a_second) as port:
        result = run(
            port, "--find-max", "--arrivals", "constant", "--rate", "30", "--slo-s", "0.5",
            "--duration-s", "1.5", "--repeats", "1", "--json",
        )  # fmt: skip
    maximum = json.loads(result.stdout)["maximum"]
    assert result.exit_code == 0
    assert 20 < maximum["rate_per_s"] < 50, "40 a second, and what the queue holds"
    assert any(probe["summary"]["outcomes"].get("shed") for probe in maximum["probes"])


@pytest.mark.parametrize(
    ("handler", "slo_s", "exit_code", "words"),
    [
        (answers, "0.000001", 1, "no rate keeps to the SLO (99 % answer within 1e-06 s)"),
        (_sheds, "1", 3, "ended as shed (overloaded)"),
    ],
    ids=["nothing meets it", "all is shed"],
)
def test_a_search_that_finds_no_rate_says_so(
    handler: Handler, slo_s: str, exit_code: int, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("benchmarks.load.find_max.LOWEST_RATE_PER_S", 30.0)  # else it goes on for long
    with serving_on_thread(handler) as port:
        result = run(port, "--find-max", "--slo-s", slo_s, "--repeats", "1")
    assert result.exit_code == exit_code
    assert words in result.stdout and "the lowest tried was 40 a second" in result.stdout


def started(port: int, *arguments: str) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        [sys.executable, "-m", "benchmarks", "load", "--url", f"http://127.0.0.1:{port}",
         "--workload", "w4", "--rate", "50", "--duration-s", "60", "--warmup-s", "0", *arguments],
        cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True,
    )  # fmt: skip


@pytest.mark.parametrize("signal_", [signal.SIGINT, signal.SIGTERM])
def test_ctrl_c_gives_the_report_so_far(signal_: signal.Signals) -> None:
    requests = 0

    async def count(_: web.Request) -> web.Response:
        nonlocal requests
        requests += 1
        return web.json_response(RANKING)

    with serving_on_thread(count) as port:
        process = started(port)
        until_s = time.monotonic() + 30
        while requests < 20 and time.monotonic() < until_s:
            time.sleep(0.05)
        process.send_signal(signal_)
        stdout, stderr = process.communicate(timeout=30)
    assert process.returncode == 130, stderr
    assert "interrupted:" in stdout and "| ok |" in stdout and "Traceback" not in stderr
    assert int(re.findall(r"interrupted: (\d+) of", stdout)[0]) >= 15


def test_its_own_metrics_are_served_while_it_runs() -> None:
    with serving_on_thread(answers) as port:
        process = started(port, "--metrics-port", "0")
        assert process.stderr is not None
        announced = re.search(r"http://127.0.0.1:\d+/metrics", process.stderr.readline())
        assert announced is not None
        page, until_s = "", time.monotonic() + 30
        while 'outcome="ok"' not in page and time.monotonic() < until_s:
            time.sleep(0.1)
            page = urllib.request.urlopen(announced[0], timeout=5).read().decode()
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=30)
    found = re.search(r'crag_load_requests_total\{.*outcome="ok"\} (\d+)', page)
    assert found is not None and int(found[1]) > 0
    assert "crag_load_latency_seconds_bucket" in page and "crag_load_lateness_seconds_count" in page
