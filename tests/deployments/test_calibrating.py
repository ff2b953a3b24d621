"""`crag calibrate`: a run's answers under each action become the thresholds of a manifest."""

import json
import random
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from benchmarks.quality.ledger import Ledger, Row
from benchmarks.quality.methods import Method
from deployments.backends.evaluators.evaluator_manifest import EvaluatorKind, load_manifest
from deployments.cli import app
from tests.benchmarks.servers import ANSWER
from tests.checkpoints import make_t5, write_tiny_manifest

FORCED = (Method.CRAG_CORRECT, Method.CRAG_AMBIGUOUS, Method.CRAG_INCORRECT)
QUESTIONS = 80


@pytest.fixture
def evaluator(tmp_path: Path) -> Path:
    folder = make_t5(tmp_path / "evaluator")
    write_tiny_manifest(folder, EvaluatorKind.T5)
    return folder


@pytest.fixture
def data(tmp_path: Path) -> Path:
    rows = [{"id": str(i), "question": "Who?", "answers": ["Ann"]} for i in range(QUESTIONS)]
    (tmp_path / "data").mkdir()
    text = "".join(json.dumps(row) + "\n" for row in rows)
    (tmp_path / "data/popqa.jsonl").write_text(text, "utf-8")
    return tmp_path / "data"


def made_run(folder: Path, evaluator_id: str, methods: tuple[Method, ...] = FORCED) -> Path:
    """CORRECT is right where the best score is positive, INCORRECT where it is below -1."""
    rng = random.Random(0)
    with closing(Ledger(folder, {"format": 1})) as ledger:
        for number in range(QUESTIONS):
            score = rng.uniform(-2, 2)
            right = {
                Method.CRAG_CORRECT: score > 0,
                Method.CRAG_AMBIGUOUS: -1 <= score <= 0,
                Method.CRAG_INCORRECT: score < -1,
            }
            for method in methods:
                trace = {
                    **ANSWER["trace"],
                    "documents": [{"score": score}],
                    "evaluator_id": evaluator_id,
                }
                reply = {**ANSWER, "answer": "Ann" if right[method] else "Bob", "trace": trace}
                ledger.add(Row("popqa", method, str(number), 0.1, 1, reply))
    return folder


def run(evaluator: Path, made: Path, data: Path, *more: str) -> Any:
    arguments = ["calibrate", str(evaluator), "--run", str(made), "--data", str(data), *more]
    return CliRunner().invoke(app, arguments)


def test_the_thresholds_that_answers_call_for_are_written_and_drawn(
    evaluator: Path, data: Path, tmp_path: Path
) -> None:
    made = made_run(tmp_path / "run", load_manifest(evaluator).evaluator_id)
    done = run(evaluator, made, data, "--write", "--out", str(tmp_path / "out"), "--json")
    assert done.exit_code == 0, done.output
    report = json.loads(done.stdout)
    thresholds = load_manifest(evaluator).thresholds
    assert thresholds.model_dump() == report["thresholds"]
    assert thresholds.upper == pytest.approx(0, abs=0.15)
    assert thresholds.lower == pytest.approx(-1, abs=0.15)
    assert thresholds.strip == -0.5, "strips are chosen by labels alone"
    assert report["accuracy_before"] < report["accuracy_held_out"] <= report["accuracy_chosen_on"] == 1
    assert "best for a budget" in (tmp_path / "out/calibration.svg").read_text("utf-8")


def test_without_write_nothing_changes_and_a_budget_is_kept(
    evaluator: Path, data: Path, tmp_path: Path
) -> None:
    made = made_run(tmp_path / "run", load_manifest(evaluator).evaluator_id)
    before = load_manifest(evaluator)
    done = run(evaluator, made, data, "--goal", "search-budget", "--budget", "0.2", "--json")
    assert json.loads(done.stdout)["search_share"] <= 0.2
    assert load_manifest(evaluator) == before


@pytest.mark.parametrize(
    ("evaluator_id", "methods", "more", "told"),
    [
        ("t5-other", FORCED, [], "thresholds belong to one checkpoint"),
        (None, FORCED[:2], [], "has no question of these sets under all of"),
        (None, FORCED, ["--budget", "0.2"], "--goal search-budget and --budget belong together"),
    ],
    ids=["other-evaluator", "missing-action", "budget-alone"],
)
def test_wrong_use_is_told_and_changes_nothing(
    evaluator: Path,
    data: Path,
    tmp_path: Path,
    evaluator_id: str | None,
    methods: tuple[Method, ...],
    more: list[str],
    told: str,
) -> None:
    used = evaluator_id or load_manifest(evaluator).evaluator_id
    done = run(evaluator, made_run(tmp_path / "run", used, methods), data, "--write", *more)
    assert done.exit_code == 2
    assert told in " ".join(done.stderr.split())
    assert load_manifest(evaluator).thresholds.upper == 0.5
