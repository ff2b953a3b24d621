"""Fine-tuning learns, resumes, stops at what is no number, and writes an evaluator that serves."""

import json
import random
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from transformers import Trainer, TrainerCallback

from crag_core.errors import SettingsError
from crag_core.settings import ActionThresholds
from crag_core.types import Passage
from deployments.backends.evaluators.evaluator_manifest import EvaluatorKind, load_manifest
from deployments.backends.evaluators.scorer import load_scorer
from deployments.settings import EvaluatorSettings
from tests.checkpoints import make_bert, make_t5
from training import fine_tuning
from training.entity_split import entity_groups, split_by_entity
from training.evaluator_test import auc_difference, scored_by, slices
from training.fine_tuning import Recipe, Trained, fine_tune
from training.from_scratch import make_t5 as make_t5_of_shape
from training.labelled_pairs import LabelledPair, whole_questions
from training.options import Precision, T5Shape

KINDS = ("city", "sport")


def pairs(questions: int = 40, *, seed: int = 0) -> list[LabelledPair]:
    """Relevant passages say yes, the others no: a model of any size can learn that."""
    rng = random.Random(seed)
    made: list[LabelledPair] = []
    for number in range(questions):
        for is_relevant in (True, False, False):
            word = "yes yes yes" if is_relevant else "no no no"
            text = f"{word} {rng.choice('abc')}"
            made.append(
                LabelledPair(
                    "popqa", f"popqa-{number}", f"who {number}?", Passage(text), is_relevant,
                    KINDS[number % 2], (f"page {number // 2}",),
                )
            )  # fmt: skip
    return made


def recipe(base: Path, **changes: Any) -> Recipe:
    fields: dict[str, Any] = {
        "base": str(base), "learning_rate": 3e-3, "epochs": 4.0, "max_tokens": 48,
        "validation_share": 0.3,
    }  # fmt: skip
    return Recipe(**{**fields, **changes})


def tuned(base: Path, out: Path, made: Sequence[LabelledPair], **changes: Any) -> Trained:
    return fine_tune(made, recipe(base, **changes), out, trained_on="tests", command="crag train")


@pytest.mark.parametrize(
    ("make", "kind"), [(make_t5, EvaluatorKind.T5), (make_bert, EvaluatorKind.SEQUENCE_CLASSIFIER)]
)
def test_a_checkpoint_learns_and_is_served_as_it_was_trained(
    tmp_path: Path, make: Any, kind: EvaluatorKind
) -> None:
    out = tmp_path / "out"
    made = pairs()
    trained = tuned(make(tmp_path / "base"), out, made)
    assert trained.losses[-1] < 0.8 * trained.losses[0]
    assert trained.auc > 0.9
    manifest = load_manifest(out)
    assert manifest.kind is kind and manifest.thresholds == trained.thresholds
    scorer = load_scorer(EvaluatorSettings(model=str(out)))
    _, held_out = split_by_entity(made, 0.3, 0)
    (whole, *_) = slices(
        held_out, scored_by(scorer, held_out, lambda _: None), manifest.thresholds.action()
    )
    assert whole.auc == pytest.approx(trained.auc, abs=0.02), "serving scores as training did"
    assert not out.with_name("out.training").exists()


def test_bfloat16_learns_and_leaves_float32_weights(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fine_tuning, "has_bfloat16_units", lambda: True)
    trained = tuned(make_t5(tmp_path / "base"), tmp_path / "out", pairs(), precision=Precision.BFLOAT16)
    assert trained.losses[-1] < 0.8 * trained.losses[0] and trained.auc > 0.9
    weights = load_file(tmp_path / "out/model.safetensors")
    assert {tensor.dtype for tensor in weights.values()} == {torch.float32}


def test_bfloat16_is_refused_where_it_would_be_slower(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fine_tuning, "has_bfloat16_units", lambda: False)
    with pytest.raises(SettingsError, match="no matrix units for bfloat16"):
        tuned(make_t5(tmp_path / "base"), tmp_path / "out", pairs(), precision=Precision.BFLOAT16)


def test_the_learning_rate_warms_up_and_decays(tmp_path: Path) -> None:
    rates: list[float] = []

    class Noting(TrainerCallback):
        def on_log(self, args: Any, state: Any, control: Any, logs: Any = None, **_: Any) -> None:
            rates.extend([logs["learning_rate"]] if "learning_rate" in logs else [])

    def noting(trainer: Trainer) -> Trainer:
        trainer.add_callback(Noting())
        return trainer

    half = recipe(make_t5(tmp_path / "base"), warmup_share=0.5)
    fine_tune(pairs(), half, tmp_path / "out", trained_on="tests", command="c", prepare=noting)
    top = rates.index(max(rates))
    assert 0 < top < len(rates) - 1
    assert rates[: top + 1] == sorted(rates[: top + 1])
    assert rates[top:] == sorted(rates[top:], reverse=True)


class _Interrupted(TrainerCallback):
    def on_epoch_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        if state.epoch >= 2:
            raise KeyboardInterrupt


def test_an_interrupted_training_goes_on_from_its_last_checkpoint(tmp_path: Path) -> None:
    base, out = make_t5(tmp_path / "base"), tmp_path / "out"

    def interrupting(trainer: Trainer) -> Trainer:
        trainer.add_callback(_Interrupted())
        return trainer

    with pytest.raises(KeyboardInterrupt):
        fine_tune(pairs(), recipe(base), out, trained_on="tests", command="c", prepare=interrupting)
    steps: list[int] = []

    class Noting(TrainerCallback):
        def on_train_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:
            steps.append(state.global_step)

    def noting(trainer: Trainer) -> Trainer:
        trainer.add_callback(Noting())
        return trainer

    with pytest.raises(SettingsError, match=r"other settings \(learning_rate\)"):
        tuned(base, out, pairs(), learning_rate=1e-3)
    fine_tune(pairs(), recipe(base), out, trained_on="tests", command="c", prepare=noting)
    assert steps[0] > 0 and (out / "evaluator.json").exists()


def test_a_loss_that_is_no_number_ends_the_training_and_writes_nothing(tmp_path: Path) -> None:
    base, out = make_t5(tmp_path / "base"), tmp_path / "out"

    def poisoned(trainer: Trainer) -> Trainer:
        with torch.no_grad():
            next(trainer.model.parameters()).fill_(float("nan"))
        return trainer

    with pytest.raises(SettingsError, match="is no number at step"):
        fine_tune(pairs(), recipe(base), out, trained_on="tests", command="c", prepare=poisoned)
    assert not out.exists()


def test_a_split_without_both_labels_is_refused(tmp_path: Path) -> None:
    only = [pair for pair in pairs() if not pair.is_relevant]
    with pytest.raises(SettingsError, match="0 of them relevant: an evaluator needs both labels"):
        tuned(make_t5(tmp_path / "base"), tmp_path / "out", only)


def test_a_folder_that_is_there_is_never_written_over(tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    with pytest.raises(SettingsError, match="exists: choose another --out"):
        tuned(make_t5(tmp_path / "base"), tmp_path / "out", pairs())


def test_no_entity_is_on_both_sides_of_a_split() -> None:
    fitted, held_out = split_by_entity(pairs(), 0.3, 0)
    assert fitted and held_out
    assert not {e for p in fitted for e in p.entities} & {e for p in held_out for e in p.entities}


def test_questions_are_joined_through_the_entities_of_others() -> None:
    def about(group: str, *entities: str) -> LabelledPair:
        return LabelledPair("hotpotqa", group, group, Passage("t"), True, "bridge", entities)

    groups = entity_groups([about("a", "x"), about("b", "x", "y"), about("c", "y"), about("d", "z")])
    assert groups[0] == groups[1] == groups[2] != groups[3]


def test_whole_questions_are_drawn() -> None:
    drawn = whole_questions(pairs(), 30, seed=1)
    assert len(drawn) == 30 and len({pair.group for pair in drawn}) == 10
    assert whole_questions(pairs(), 30, seed=1) == drawn != whole_questions(pairs(), 30, seed=2)


def test_a_t5_of_a_shape_is_made_with_a_vocabulary_of_the_texts(tmp_path: Path) -> None:
    texts = [f"the painter {name} lived in {city}" for name in "abcdef" for city in ("Rome", "Oslo")]
    folder = make_t5_of_shape(tmp_path / "t5", T5Shape.TINY, texts)
    trained = tuned(folder, tmp_path / "out", pairs(), epochs=1.0, max_steps=2)
    assert trained.steps == 2
    assert json.loads((tmp_path / "out/config.json").read_text("utf-8"))["d_model"] == 128


def test_slices_count_labels_by_action() -> None:
    made = pairs(4)
    scores = np.array([2.0 if pair.is_relevant else -2.0 for pair in made], dtype=np.float32)
    whole, popqa, *kinds = slices(made, scores, ActionThresholds(upper=1.0, lower=-1.0))
    assert (whole.auc, whole.accuracy, whole.pairs, whole.relevant) == (1.0, 1.0, 12, 4)
    assert popqa.name == "set popqa" and {each.name for each in kinds} == {"popqa: city", "popqa: sport"}
    assert whole.confusion["relevant"] == {"correct": 4, "incorrect": 0, "ambiguous": 0}
    assert whole.confusion["irrelevant"] == {"correct": 0, "incorrect": 8, "ambiguous": 0}
    json.dumps([asdict(each) for each in (whole, popqa, *kinds)])  # numpy's numbers could not be


def test_a_better_ranking_is_better_beyond_noise_and_an_equal_one_is_not() -> None:
    rng = np.random.default_rng(0)
    labels = rng.random(600) < 0.3
    good = (labels + rng.normal(0, 0.5, 600)).astype(np.float32)
    poor = (labels + rng.normal(0, 2.0, 600)).astype(np.float32)
    groups = np.repeat(np.arange(120), 5)
    found = auc_difference(labels, good, poor, groups)
    assert 0 < found.low < found.mean < found.high
    same = auc_difference(labels, poor, poor + rng.normal(0, 0.01, 600).astype(np.float32), groups)
    assert same.low < 0 < same.high
