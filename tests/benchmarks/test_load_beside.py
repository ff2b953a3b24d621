"""Load beside a scene: by an address that nobody looked up before, every request with its outcome."""

import time

import pytest

from benchmarks.drill import load_beside
from benchmarks.load.outcomes import Outcome, Record
from tests.benchmarks.servers import answers, serving_on_thread


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
def test_what_is_sent_is_answered(host: str) -> None:
    records: list[Record] = []
    with (
        serving_on_thread(answers) as port,
        load_beside.load_beside(f"http://{host}:{port}", 50.0, records),
    ):
        time.sleep(1)
    assert {record.outcome for record in records} == {Outcome.OK}


def test_a_capacity_is_what_was_answered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(load_beside, "_MEASURES_FOR_S", 1.0)
    with serving_on_thread(answers) as port:
        assert load_beside.capacity_per_s(f"http://127.0.0.1:{port}") > 1.0
