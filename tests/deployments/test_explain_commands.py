"""`crag explain` as a person meets it."""

import io
import json
from pathlib import Path
from typing import Any

import httpx
import pytest
from rich.console import Console
from typer.testing import CliRunner

from deployments.cli import app
from deployments.commands import explain_terminal

ROOT = Path(__file__).parents[2]
QUESTION, PASSAGE = "Who wrote [red]Emma?", "Jane\x1b Austen."


def token(text: str, side: str, start: int, value: float) -> dict[str, Any]:
    return {"text": text, "side": side, "start": start, "end": start + len(text), "value": value}


EXPLANATION = {
    "score": 0.5, "base_value": -0.25, "evaluations": 12, "method": "partition", "unit": "word",
    "tokens": [
        token("[red]Emma?", "question", 10, 1.0), token("[SEP]", "separator", 1, -0.125),
        token("Jane\x1b", "passage", 0, -0.125),
    ],
    "classes": [
        {"name": "other", "tokens": [0, 2], "value": 0.875, "mean": 0.4375, "mean_absolute": 0.5625}
    ],
    "additivity_error": 0.0, "standard_error": 0.01, "truncated": True, "evaluator_id": "t5-1",
}  # fmt: skip


@pytest.fixture
def served(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """A server's explanation of unsafe text, and what was sent for it."""
    sent: list[Any] = []

    def post(url: str, **arguments: Any) -> httpx.Response:
        sent.append((url, arguments["json"]))
        return httpx.Response(200, json=EXPLANATION)

    monkeypatch.setattr(httpx, "post", post)
    return sent


def run(*arguments: str | Path) -> Any:
    return CliRunner().invoke(app, ["explain", *(str(argument) for argument in arguments)])


def test_an_explanation_is_shown_as_a_sum_with_its_strongest_words(served: list[Any]) -> None:
    result = run("pair", QUESTION, PASSAGE, "--title", "Emma", "--unit", "token")
    assert result.exit_code == 0, result.output
    (url, body), *_ = served
    assert url == "http://127.0.0.1:8000/v1/explain"
    assert (body["question"], body["passage"]) == (QUESTION, {"text": PASSAGE, "title": "Emma"})
    assert body["unit"] == "token" and body["max_evaluations"] is None
    assert "score +0.500 = -0.250 base +1.000 question -0.125 separator -0.125 passage" in result.output
    assert "Who wrote [red]Emma?" in result.output and "Jane  Austen." in result.output
    assert "\x1b" not in result.output
    assert "12 evaluations, standard error 0.0100" in result.output
    assert "only the beginning was read" in result.output


def test_words_are_coloured_by_what_they_add(monkeypatch: pytest.MonkeyPatch) -> None:
    drawn = io.StringIO()
    monkeypatch.setattr(
        explain_terminal, "out", Console(file=drawn, color_system="truecolor", force_terminal=True)
    )
    explain_terminal.print_explanation(EXPLANATION, {"question": QUESTION, "passage": PASSAGE})
    green, red = "\x1b[37;48;2;0;128;96m", "\x1b[37;48;2;24;4;6m"
    assert f"{green}[red]Emma?" in drawn.getvalue() and f"{red}Jane " in drawn.getvalue()


def test_an_explanation_is_printed_as_json(served: list[Any]) -> None:
    assert json.loads(run("pair", "q", "p", "--json").stdout) == EXPLANATION


def test_a_study_without_its_data_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    result = run("study", "--data", tmp_path, "--out", tmp_path / "out")
    assert result.exit_code == 2 and "neither popqa.jsonl" in result.stderr.replace("\n", "")
    assert not (tmp_path / "out").exists()
