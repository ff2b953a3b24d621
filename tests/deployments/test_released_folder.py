"""The CRAG authors' folder is taken as it is: shards without an index, no manifest."""

import json
from pathlib import Path

import pytest

from crag_core.errors import SettingsError
from crag_core.types import Passage
from deployments.backends.batching.pair_scorer import score_passages
from deployments.backends.evaluators.evaluator_manifest import PassageForm, load_manifest
from deployments.backends.evaluators.released_folder import import_released
from deployments.backends.evaluators.released_task import ReleasedTask
from deployments.backends.evaluators.scorer import load_scorer
from deployments.settings import EvaluatorSettings
from tests.checkpoints import make_bert, make_t5

INDEX = "model.safetensors.index.json"


@pytest.fixture
def sharded(tmp_path: Path) -> Path:
    folder = make_t5(tmp_path / "released", max_shard_size="20KB")
    assert len(list(folder.glob("*.safetensors"))) > 1
    return folder


def scores(folder: Path) -> list[float | None]:
    scorer = load_scorer(EvaluatorSettings(model=str(folder)))
    return [
        scored.score for scored in score_passages(scorer, "who?", [Passage("Ann."), Passage("Bob.")])
    ]


def test_shards_without_an_index_score_as_those_with_theirs(sharded: Path, tmp_path: Path) -> None:
    before = scores(sharded)
    theirs = json.loads((sharded / INDEX).read_text("utf-8"))
    (sharded / INDEX).unlink()
    import_released(sharded, tmp_path / "out", ReleasedTask.POPQA, "crag evaluator import")
    ours = json.loads((tmp_path / "out" / INDEX).read_text("utf-8"))
    assert ours["weight_map"] == theirs["weight_map"]
    assert scores(tmp_path / "out") == before
    assert not (sharded / INDEX).exists(), "the released folder stays as it is"


@pytest.mark.parametrize(
    ("task", "upper", "lower", "form"),
    [
        (ReleasedTask.POPQA, 0.592, -0.995, PassageForm.TEXT),
        (ReleasedTask.PUBHEALTH, 0.5, -0.915, PassageForm.TITLE_TEXT),
        (ReleasedTask.ARC_CHALLENGE, 0.5, -0.91, PassageForm.TITLE_TEXT),
        (ReleasedTask.BIOGRAPHY, 0.95, -0.91, PassageForm.TITLE_TEXT),
    ],
)
def test_each_task_has_its_published_thresholds(
    tmp_path: Path, task: ReleasedTask, upper: float, lower: float, form: PassageForm
) -> None:
    import_released(make_t5(tmp_path / "released"), tmp_path / "out", task, "c")
    manifest = load_manifest(tmp_path / "out")
    assert (manifest.thresholds.upper, manifest.thresholds.lower) == (upper, lower)
    assert manifest.passage_form is form


def test_a_cut_shard_is_named_and_nothing_is_left(sharded: Path, tmp_path: Path) -> None:
    (sharded / INDEX).unlink()
    shard = sorted(sharded.glob("*.safetensors"))[0]
    shard.write_bytes(shard.read_bytes()[:100])
    with pytest.raises(SettingsError, match=rf"{shard.name} is no whole safetensors file"):
        import_released(sharded, tmp_path / "out", ReleasedTask.POPQA, "c")
    assert not (tmp_path / "out").exists()


def test_what_is_no_released_checkpoint_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="holds no T5ForSequenceClassification"):
        import_released(make_bert(tmp_path / "bert"), tmp_path / "out", ReleasedTask.POPQA, "c")
    bare = make_t5(tmp_path / "t5")
    (bare / "tokenizer.json").unlink()
    with pytest.raises(SettingsError, match="is t5-large's: copy its files"):
        import_released(bare, tmp_path / "out", ReleasedTask.POPQA, "c")
