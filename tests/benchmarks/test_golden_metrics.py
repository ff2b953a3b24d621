"""Golden rows are judged again, and what differs is named."""

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from benchmarks.__main__ import app
from benchmarks.golden_metrics import compared, golden_metrics

RIGHT: list[dict[str, Any]] = [
    {"run": "a", "prediction": "The Beatles!", "answer": "Beatles", "exact_match": True, "f1": 1.0},
    {"run": "a", "prediction": "John Lennon", "answer": "Lennon", "exact_match": False, "f1": 2 / 3},
    {"run": "b", "prediction": None, "answer": "Lennon", "exact_match": False, "f1": 0.0},
]


@pytest.mark.parametrize(
    "changes", [{"exact_match": True}, {"f1": 0.667}, {"prediction": "Lennon"}, {"answer": "Paul"}]
)
def test_a_row_judged_otherwise_is_named(changes: dict[str, Any]) -> None:
    assert compared(RIGHT).disagreements == ()
    (found,) = compared([RIGHT[0], {**RIGHT[1], **changes}, RIGHT[2]]).disagreements
    assert found.row == 2


@pytest.mark.parametrize(
    ("rows", "exit_code", "told"),
    [
        (RIGHT, 0, "3 of 3 rows agree"),
        ([*RIGHT, {**RIGHT[0], "f1": 0.5}], 1, "3 of 4 rows agree"),
        ([], 1, "0 of 0 rows agree"),
        ([{"prediction": "x"}], 2, "row 1 is no golden row: it lacks 'answer'"),
    ],
)
def test_the_command_says_how_many_agree(
    tmp_path: Path, rows: list[dict[str, Any]], exit_code: int, told: str
) -> None:
    text = "".join(json.dumps(row) + "\n" for row in rows)
    (tmp_path / "metric_golden.jsonl").write_text(text, "utf-8")
    app.command()(golden_metrics)
    end = CliRunner().invoke(app, ["golden-metrics", "--data", str(tmp_path)])
    assert (end.exit_code, told in end.output) == (exit_code, True)
