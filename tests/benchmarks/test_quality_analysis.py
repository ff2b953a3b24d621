"""Figures of a run: statistics that know their doubt, tables, plots, and the gate."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from benchmarks.quality import gate, written
from benchmarks.quality.analysis import SetResults, results_of
from benchmarks.quality.figures import figures
from benchmarks.quality.ledger import Row
from benchmarks.quality.methods import Method
from benchmarks.quality.questions import EvalQuestion, QuestionSet
from benchmarks.quality.scoring import metrics_of, score_row
from benchmarks.quality.statistics import estimate, paired_difference
from benchmarks.quality.tables import sections
from crag_core.types import Choice, Passage, Task
from tests.benchmarks.servers import ANSWER

KINDS = ("occupation", "city", "genre", "author")
ACTIONS = ("correct", "ambiguous", "incorrect")
RUN = {"documents": "given", "search": "replay"}


def questions(count: int = 60) -> QuestionSet:
    made = tuple(
        EvalQuestion(
            str(i), "Who?", Task.QUESTION, ("Ann",) if i % 10 else (), KINDS[i % 4],
            documents=(Passage("Ann is a poet." if i % 2 else "Bob."),),
        )
        for i in range(count)
    )  # fmt: skip
    return QuestionSet("popqa", Path("popqa.jsonl"), "0" * 64, made)


def reply(place: int, text: str, action: str | None) -> dict[str, Any]:
    trace = {
        **ANSWER["trace"],
        "documents": [{"score": place / 30 - 1}],
        "thresholds": {"upper": 0.5, "lower": -0.5},
        "search_queries": [{"text": "q"}] if action in ACTIONS[1:] else [],
        "searched": [{"document_id": "replay:popqa.1:0"}] if action == "ambiguous" else [],
    }
    cited = (
        [{"document_id": "replay:popqa.1:0", "text": "Ann wrote.", "title": "T"}] if place % 3 else []
    )
    return {**ANSWER, "answer": text, "action": action, "citations": cited, "trace": trace}


def results(right: Sequence[bool], methods: Sequence[Method] = tuple(Method)[:5]) -> SetResults:
    """`crag` is right where `right` says so, the others one time in three."""
    each = questions(len(right))
    rows = {}
    for method in methods:
        for place, question in enumerate(each.questions):
            is_right = right[place] if method is Method.CRAG else place % 3 == 0
            action = ACTIONS[place % 3] if method in (Method.CRAG, Method.CRAG_NO_WEB) else None
            answered = reply(place, "It is Ann." if is_right else "Nobody.", action)
            row = Row("popqa", method, question.id, 0.1, 1, answered)
            rows[row.key] = row
    (found,) = results_of([each], rows, methods)
    return found


def test_intervals_hold_the_mean_and_know_the_number_of_questions() -> None:
    rng = np.random.default_rng(3)
    few, many = estimate([1.0, 0.0] * 20), estimate([1.0, 0.0] * 500)
    assert few.low < 0.5 < few.high and many.high - many.low < (few.high - few.low) / 3
    assert estimate([1.0] * 20).low == pytest.approx(0.839, abs=1e-3), "Wilson's, where all are right"
    assert np.isnan(estimate([]).mean)
    covered = [
        found.low <= 0.3 <= found.high
        for _ in range(60)
        for found in [estimate((rng.random(150) < 0.3).astype(float).tolist())]
    ]
    assert sum(covered) >= 51, "95 % intervals hold the truth about 57 times in 60"


def test_pairing_tells_apart_what_lies_within_both_intervals() -> None:
    rng = np.random.default_rng(5)
    easy = rng.random(400) < 0.5
    better = easy | (rng.random(400) < 0.06)
    found = paired_difference(better.astype(float).tolist(), easy.astype(float).tolist())
    assert found.is_better and found.p < 0.01
    assert estimate(easy.astype(float).tolist()).high > estimate(better.astype(float).tolist()).low


def test_the_test_of_shares_is_mcnemars_exact_one() -> None:
    # 8 questions won, 1 lost: two-sided binomial, 2 * (C(9,0) + C(9,1)) / 2^9
    first = [1.0] * 8 + [0.0] + [1.0] * 11
    second = [0.0] * 8 + [1.0] + [1.0] * 11
    assert paired_difference(first, second).p == pytest.approx(20 / 512)
    assert paired_difference([0.5, 0.25], [0.5, 0.25]).p == 1.0
    with pytest.raises(ValueError, match="differ in number: 1 and 2"):
        paired_difference([1.0], [1.0, 0.0])


def test_a_shift_of_f1_is_tested_by_signs() -> None:
    rng = np.random.default_rng(7)
    base = rng.random(80)
    assert paired_difference((base * 0.9).tolist(), base.tolist()).p < 0.001
    noise = rng.normal(0, 0.1, 80)
    assert paired_difference((base + noise - noise.mean()).tolist(), base.tolist()).p > 0.5


def test_every_table_of_the_papers_is_there_and_adds_up() -> None:
    found = results([True] * 60)
    tables = {section.title: section for section in sections(found)}
    assert list(tables) == [
        "Methods", "Cost per question", "Paired differences, match", "match % by action",
        "match % by question type", "match % of crag by type and action, with counts", "Hit rates",
        "Stages",
    ]  # fmt: skip
    assert tables["Methods"].rows[4][:4] == ["crag", "54", "100.0", "93.4 to 100.0"]
    assert sum(int(row[1]) for row in tables["match % by question type"].rows) == 54
    assert sum(int(row[1]) for row in tables["match % by action"].rows) == 60
    text = written.markdown([found], RUN)
    assert "documents given, search replay" in text
    assert "6 questions have no gold" in text
    assert "`crag` against `rag_top1`: +66.7 points" in text


def test_every_figure_of_the_papers_is_drawn() -> None:
    drawn = figures(results([place % 4 == 0 for place in range(60)]))
    assert set(drawn) == {"methods", "types", "actions", "types-actions", "scores", "reliability"}
    assert all(svg.lstrip().startswith("<?xml") for svg in drawn.values())
    assert "upper 0.5" in drawn["scores"] and "ambiguous" in drawn["types-actions"]


def test_a_report_of_one_method_without_actions_needs_no_more(tmp_path: Path) -> None:
    found = results([True] * 12, [Method.NO_RETRIEVAL])
    written.write(tmp_path, [found], RUN)
    assert json.loads((tmp_path / "report.json").read_text("utf-8"))["sets"][0]["differences"] == []


def test_questions_that_a_method_was_not_asked_are_left_out_of_all() -> None:
    each = questions(4)
    rows = [
        Row("popqa", method, question.id, 0.1, 1, reply(0, "Ann", None))
        for method in (Method.RAG, Method.CRAG)
        for question in each.questions[: 3 if method is Method.RAG else 4]
    ]
    (found,) = results_of([each], {row.key: row for row in rows}, [Method.RAG, Method.CRAG])
    assert found.unasked == 1 and [len(rows) for rows in found.rows.values()] == [3, 3]


def baseline_of(found: SetResults, path: Path) -> gate.Baseline:
    gate.write_baseline(path, [found], "crag quality")
    return gate.read_baseline(path)


def test_the_gate_holds_noise_for_noise_and_a_fall_for_a_fall(tmp_path: Path) -> None:
    before = [place % 2 == 0 for place in range(60)]
    baseline = baseline_of(results(before), tmp_path / "b.json")
    noise = [not right if place in (1, 2, 3, 4, 5) else right for place, right in enumerate(before)]
    fallen = [right and place % 4 == 0 for place, right in enumerate(before)]

    def worse(right: Sequence[bool]) -> set[Method]:
        return {each.method for each in gate.compare(baseline, [results(right)]) if each.is_worse}

    assert worse(before) == worse(noise) == worse([True] * 60) == set()
    assert worse(fallen) == {Method.CRAG}


def test_the_gate_compares_the_questions_that_both_have(tmp_path: Path) -> None:
    baseline = baseline_of(results([True] * 60), tmp_path / "b.json")
    compared = gate.compare(baseline, [results([False] * 20)])
    assert {each.difference.n for each in compared} == {18}
    assert [each.method for each in compared if each.is_worse] == [Method.CRAG]


def test_the_gate_is_not_passed_by_measuring_something_else(tmp_path: Path) -> None:
    baseline = baseline_of(results([True] * 20, [Method.RAG]), tmp_path / "b.json")
    with pytest.raises(ValueError, match="the baseline has no match of popqa by any of these"):
        gate.compare(baseline, [results([True] * 20, [Method.CRAG])])
    (tmp_path / "c.json").write_text("{}", "utf-8")
    with pytest.raises(ValueError, match="is no baseline"):
        gate.read_baseline(tmp_path / "c.json")


def test_each_task_is_judged_by_its_own_metrics() -> None:
    choices = (Choice("A", "ice"), Choice("B", "snow"))
    choice = EvalQuestion("1", "Which?", Task.CHOICE, ("snow",), "choice", choices, "B")
    assert list(metrics_of("It is snow.", choice).values()) == [1.0, 0.0]
    assert list(metrics_of("B) snow", choice).values()) == [1.0, 1.0]
    claim = EvalQuestion("1", "It cures.", Task.CLAIM, ("false",), "claim")
    assert list(metrics_of("False.", claim).values()) == [1.0, 0.0]
    question = EvalQuestion("1", "Who?", Task.QUESTION, ("ann lee",), "other")
    assert list(metrics_of("Ann Lee", question).values()) == [1.0, 0.0, 1.0, 1.0]


def test_a_failure_is_worth_nothing_and_no_gold_is_no_metric() -> None:
    first, second = questions(2).questions
    failed = Row("popqa", Method.CRAG, "1", 0.1, 3, None, "generation_failed")
    assert set(score_row(failed, second).metrics.values()) == {0.0}
    assert score_row(failed, first).metrics == {}
