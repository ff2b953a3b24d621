"""The study: samples, changes, findings on made-up rows, and one whole run over a real evaluator."""

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from crag_core.errors import SettingsError
from crag_core.explaining import TokenClass
from crag_core.types import Passage
from deployments.backends.evaluators.evaluator_manifest import EvaluatorKind
from deployments.local import app_settings, load_config
from deployments.settings import AppSettings
from explainability.study.counterfactuals import Change, changed
from explainability.study.findings import (
    agreement,
    by_entity_type,
    change_findings,
    class_findings,
    hypothesis,
    names_against_other_words,
)
from explainability.study.rows import Changed, Row, Token
from explainability.study.samples import Sample, candidates
from explainability.study.session import StudySettings, study
from explainability.study.written import write_report
from tests.checkpoints import make_t5, write_tiny_manifest

ROOT = Path(__file__).parents[2]

FEILDEN = Sample(
    "popqa/1/0",
    "popqa",
    "What is Henry Feilden's occupation?",
    Passage("Henry Feilden was a politician. Feilden sat for Blackburn.", "Henry Feilden"),
    "Henry Feilden",
    "occupation",
)
BAKER = Sample(
    "popqa/2/0",
    "popqa",
    "What is Clement Baker's occupation?",
    Passage("Clement Baker was an engineer.", "Clement Baker"),
    "Clement Baker",
    "occupation",
)
EMMA = Sample(
    "popqa/3/0",
    "popqa",
    "Who is the author of Emma?",
    Passage("Emma is a novel by Jane Austen.", "Emma"),
    "Emma",
    "author",
)


def test_another_name_takes_every_place_of_the_first_and_is_not_replaced_itself() -> None:
    found = changed(FEILDEN, [EMMA, FEILDEN, BAKER])
    assert found[Change.ENTITY].passage == Passage(
        "Clement Baker was a politician. Baker sat for Blackburn.", "Clement Baker"
    )
    assert found[Change.ENTITY].question == FEILDEN.question


def test_another_sense_is_said_of_the_same_name() -> None:
    found = changed(FEILDEN, [BAKER, EMMA])
    assert found[Change.SENSE].passage == Passage(
        "Henry Feilden is a novel by Jane Austen.", "Henry Feilden"
    )


def test_other_words_ask_the_same() -> None:
    assert changed(FEILDEN, [])[Change.WORDING].question == "What does Henry Feilden do for a living?"


def test_a_passage_without_the_name_is_only_asked_about_in_other_words() -> None:
    without = replace(FEILDEN, passage=Passage("He was a politician.", "Feildens"))
    assert set(changed(without, [BAKER, EMMA])) == {Change.WORDING}


def write_set(folder: Path, name: str, rows: Sequence[dict[str, Any]]) -> None:
    (folder / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")


def popqa(count: int, passages: int = 2) -> list[dict[str, Any]]:
    def row(number: int) -> dict[str, Any]:
        text = f"Ada Number{number} was a poet of the north. She wrote {number} long books about it."
        other = "Rocks of the sea are old, and nobody lives there."
        return {
            "id": number,
            "question": f"What is Ada Number{number}'s occupation?",
            "subj": f"Ada Number{number}",
            "prop": "occupation",
            "internal": [{"title": None, "text": text}, {"title": "Rocks", "text": other}][:passages],
        }

    return [row(number) for number in range(count)]


def test_every_question_gives_one_passage_before_any_gives_a_second(tmp_path: Path) -> None:
    write_set(tmp_path, "popqa", popqa(10))
    found = candidates(tmp_path, ["popqa"], max_words=10, seed=1)
    questions = [sample.id.split("/")[1] for sample in found]
    assert len(found) == 20 and sorted(questions[:10]) == sorted(questions[10:])
    assert found == candidates(tmp_path, ["popqa"], max_words=10, seed=1)
    assert found != candidates(tmp_path, ["popqa"], max_words=10, seed=2)


def test_passages_end_with_a_sentence_or_with_the_last_word_allowed(tmp_path: Path) -> None:
    write_set(tmp_path, "popqa", popqa(1, passages=1))
    (whole,) = candidates(tmp_path, ["popqa"], max_words=10, seed=0)
    assert whole.passage.text == "Ada Number0 was a poet of the north."
    (cut,) = candidates(tmp_path, ["popqa"], max_words=10, seed=0, whole_sentences=False)
    assert len(cut.passage.text.split()) == 10


@pytest.mark.parametrize(
    ("content", "words"), [(None, "holds neither popqa"), ('{"question": "Who?"}\n', "has a question")]
)
def test_a_set_that_is_missing_or_of_another_form_is_named(
    content: str | None, words: str, tmp_path: Path
) -> None:
    if content is not None:
        (tmp_path / "popqa.jsonl").write_text(content)
    with pytest.raises(SettingsError, match=words):
        candidates(tmp_path, ["popqa"], max_words=10, seed=0)


def made_up(number: int, score: float, named: float, other: float, **fields: Any) -> Row:
    """A row with one token of a shared name and one other."""
    row = Row(
        str(number), "popqa", "q", "", "p", score, 0.0, "correct", 4, 0.0, 0.01, 1.0, 0.5, "PERSON",
        (
            Token("Ada", "question", TokenClass.ENTITY_IN_BOTH, named),
            Token("was", "passage", TokenClass.OTHER, other),
        ),
        {},
    )  # fmt: skip
    return replace(row, **fields)


def test_means_of_classes_are_per_sample_and_have_intervals_around_them() -> None:
    random = np.random.default_rng(0)
    rows = [made_up(i, 1.0, 0.5 + random.normal() / 10, -0.1) for i in range(50)]
    found = {each.token_class: each for each in class_findings(rows)}
    assert set(found) == {TokenClass.ENTITY_IN_BOTH, TokenClass.OTHER}
    signed = found[TokenClass.ENTITY_IN_BOTH].signed
    assert signed.low < signed.mean < signed.high and signed.mean == pytest.approx(0.5, abs=0.05)
    assert found[TokenClass.OTHER].absolute.mean == pytest.approx(0.1)
    stronger = names_against_other_words(rows)
    assert stronger is not None and stronger.low > 0.3 and stronger.p < 0.01


@pytest.mark.parametrize("by_alignment", [True, False])
def test_the_hypothesis_holds_when_alignment_makes_the_scores_and_not_otherwise(
    by_alignment: bool,
) -> None:
    random = np.random.default_rng(1)
    rows = []
    for i in range(120):
        alignment, similarity = random.random(), random.random()
        score = (alignment if by_alignment else similarity) + random.normal() / 10
        rows.append(made_up(i, score, 0, 0, alignment=alignment, similarity=similarity))
    found = hypothesis(rows)
    assert found is not None and found.holds is by_alignment
    assert (found.difference.mean > 0.5) if by_alignment else (found.difference.mean < -0.5)
    assert hypothesis(rows[:10]) is None


def test_changes_move_scores_and_flip_actions() -> None:
    down = {Change.ENTITY: Changed(-1.0, "incorrect")}
    rows = [made_up(i, 1.0, 0, 0, changes=down) for i in range(3)]
    rows.append(made_up(3, 1.0, 0, 0, changes={Change.ENTITY: Changed(0.9, "correct")}))
    (found,) = change_findings(rows)
    assert found.flips.tolist() == [[1, 0, 3], [0, 0, 0], [0, 0, 0]]
    assert found.flipped == 0.75 and found.moved.mean == pytest.approx(-1.525)


def test_kinds_of_names_need_some_samples_and_methods_are_compared_by_rank() -> None:
    rows = [made_up(i, 1.0, 0.5, 0.1, entity_type="GPE" if i < 6 else "ORG") for i in range(8)]
    assert set(by_entity_type(rows)) == {"GPE"}
    assert agreement(rows, lambda row: row.second) is None
    found = agreement([replace(row, second=(0.4, 0.3)) for row in rows], lambda row: row.second)
    assert found is not None and found.mean == pytest.approx(1.0)


def embedded() -> AppSettings:
    return app_settings(load_config(ROOT / "configs/embedded.yaml"))


async def test_a_t5_is_cross_checked_by_gradients(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(ROOT)
    write_set(tmp_path, "popqa", popqa(1, passages=1))
    folder = make_t5(tmp_path / "t5")
    write_tiny_manifest(folder, EvaluatorKind.T5, max_tokens=128)
    evaluator = embedded().evaluator.model_copy(update={"model": str(folder), "encoder": None})
    app = embedded().model_copy(update={"evaluator": evaluator})
    settings = StudySettings(("popqa",), per_action=1, max_words=8, max_evaluations=32, second_every=1)
    (row,) = await study(app, tmp_path, tmp_path / "out", settings, lambda done, wanted: None)
    assert len(row.gradients) == len(row.second) == len(row.tokens)
    assert any(token.token_class == TokenClass.SEPARATOR for token in row.tokens)
    report = write_report(tmp_path / "out", [row], settings, "t5").read_text("utf-8")
    assert "Rank correlation with integrated gradients" in report


async def test_a_study_is_whole_goes_on_where_it_stopped_and_refuses_another_of_its_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(ROOT)
    write_set(tmp_path, "popqa", popqa(8))
    settings = StudySettings(("popqa",), per_action=2, max_words=8, max_evaluations=32, second_every=2)
    out, seen = tmp_path / "out", []
    rows = await study(embedded(), tmp_path, out, settings, lambda done, wanted: seen.append(done))
    assert len(rows) >= 2 and seen[0] == 0 and seen[-1] == len(rows)
    assert all(row.additivity_error < 1e-4 for row in rows)
    assert any(row.second for row in rows) and not all(row.second for row in rows)

    whole = (out / "rows.jsonl").read_bytes()
    first = whole.index(b"\n") + 1
    (out / "rows.jsonl").write_bytes(whole[: first + 40])  # interrupted within the second row
    again: list[int] = []
    resumed = await study(embedded(), tmp_path, out, settings, lambda done, wanted: again.append(done))
    assert again[0] == 1 and again[-1] == len(rows)
    assert [row.id for row in resumed] == [row.id for row in rows]
    assert [row.score for row in resumed] == pytest.approx([row.score for row in rows], abs=1e-5)

    report = write_report(out, resumed, settings, "minilm-head").read_text("utf-8")
    assert f"{len(rows)} samples" in report and "entity_in_both" in report
    values = json.loads((out / "values.json").read_text("utf-8"))
    assert [Row.of(value) for value in values] == resumed
    assert {path.name for path in out.glob("*.svg")} == {
        "token-bars.svg", "token-heat-map.svg", "classes-by-action.svg", "flips.svg",
    }  # fmt: skip

    with pytest.raises(SettingsError, match="max_words was 8, now 9"):
        await study(embedded(), tmp_path, out, replace(settings, max_words=9), lambda done, wanted: None)
