"""What is seen while a run goes on: in a terminal, and where nobody looks."""

import time
from io import StringIO

import pytest
from rich.console import Console

from benchmarks.load import live
from benchmarks.load.exposition import Exposition
from benchmarks.load.live import LiveView
from benchmarks.load.outcomes import Outcome, Record
from benchmarks.load.processes import Run
from benchmarks.load.settings import LoadSettings


def run_of(records: list[Record]) -> Run:
    settings = LoadSettings.model_validate({"warmup_s": 0, "arrivals": {"rate_per_s": 7}})
    return Run(settings, "r", time.monotonic() - 1.0, records, due=9, in_flight=4, busy=0.5)


def record(outcome: Outcome, latency_s: float = 0.25, action: str = "") -> Record:
    return Record(0, "answer", False, 0.5, 0.5, 0.5 + latency_s, outcome, action=action)


RECORDS = [record(Outcome.OK, 0.25, "correct"), record(Outcome.OK, 0.25), record(Outcome.SHED)]


def test_a_terminal_shows_progress_percentiles_and_the_mix() -> None:
    file = StringIO()
    view = LiveView(Console(file=file, force_terminal=True, width=100, color_system=None))
    with view.shown():
        view.watch(run_of(RECORDS), RECORDS)
    shown = file.getvalue()
    for words in ("w2 poisson 7/s, measuring", "9 due, 4 in flight", "ok 2", "shed 1", "correct 1"):
        assert words in shown
    assert any(line.startswith("last 5 s") for line in shown.splitlines()), "below the bar"
    assert "latency" in shown and "0.250" in shown and "sender 50 % busy" in shown


def test_old_answers_leave_the_window() -> None:
    file = StringIO()
    view = LiveView(Console(file=file, force_terminal=True, width=100, color_system=None))
    late = run_of(RECORDS)
    late.start_s -= 60
    with view.shown():
        view.watch(late, RECORDS)
    assert "0.250" not in file.getvalue() and "ok 2" in file.getvalue()


def test_a_log_gets_a_line_now_and_then(monkeypatch: pytest.MonkeyPatch) -> None:
    file = StringIO()
    view = LiveView(Console(file=file, width=200))
    with view.shown():
        view.watch(run_of(RECORDS), RECORDS)
        assert file.getvalue() == "", "not yet"
        monkeypatch.setattr(view, "_next_line_s", time.monotonic())
        view.watch(run_of(RECORDS), [])
    assert "9 due, 4 in flight; 2 ok, 1 shed" in file.getvalue()
    assert live._LINE_EVERY_S >= 5


def test_metrics_count_each_record_once() -> None:
    exposition = Exposition()
    exposition.watch(run_of(RECORDS), RECORDS)
    exposition.watch(run_of(RECORDS), [])

    def value(name: str, **labels: str) -> float | None:
        return exposition.registry.get_sample_value(name, labels)

    same = {"kind": "answer", "background": "false"}
    assert value("crag_load_requests_total", outcome="ok", **same) == 2
    assert value("crag_load_requests_total", outcome="shed", **same) == 1
    assert value("crag_load_latency_seconds_count", **same) == 2
    assert value("crag_load_in_flight") == 4 and value("crag_load_offered_per_second") == 7
