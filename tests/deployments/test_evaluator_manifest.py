"""The manifest describes exactly the files beside it, and says so when it does not."""

import json
import logging
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from crag_core.errors import SettingsError
from crag_core.types import Passage
from deployments.backends.evaluators.evaluator_manifest import (
    MANIFEST,
    EvaluatorKind,
    EvaluatorManifest,
    PassageForm,
    load_manifest,
)
from tests.checkpoints import make_bert, make_t5, write_tiny_manifest


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write_tiny_manifest(make_t5(tmp_path / "t5"), EvaluatorKind.T5)
    return tmp_path / "t5"


def change(folder: Path, **changes: Any) -> None:
    path = folder / MANIFEST
    path.write_text(json.dumps({**json.loads(path.read_text("utf-8")), **changes}), "utf-8")


def test_written_manifest_is_read_back(folder: Path) -> None:
    manifest = load_manifest(folder)
    assert manifest.kind is EvaluatorKind.T5
    assert manifest.thresholds.action().upper == 0.5
    assert manifest.evaluator_id == f"t5-{manifest.weights_sha256[:12]}"


def test_manifest_of_other_weights_names_both_hashes(folder: Path) -> None:
    recorded = load_manifest(folder).weights_sha256
    with (folder / "model.safetensors").open("ab") as weights:
        weights.write(b"\0")
    with pytest.raises(
        SettingsError, match=f"weights_sha256 is {recorded}, the folder's is [0-9a-f]{{64}}"
    ):
        load_manifest(folder)


def test_manifest_of_another_tokenizer_is_refused(folder: Path) -> None:
    change(folder, tokenizer_sha256="0" * 64)
    with pytest.raises(SettingsError, match="tokenizer_sha256 is 0000"):
        load_manifest(folder)


def test_missing_weights_are_named(folder: Path) -> None:
    (folder / "model.safetensors").unlink()
    with pytest.raises(SettingsError, match=r"model\.safetensors cannot be read"):
        load_manifest(folder)


def test_every_shard_counts(tmp_path: Path) -> None:
    folder = make_t5(tmp_path / "sharded", max_shard_size="20KB")
    manifest = write_tiny_manifest(folder, EvaluatorKind.T5)
    assert manifest.weights == "model.safetensors.index.json"
    assert load_manifest(folder) == manifest

    shard = sorted(folder.glob("model-*.safetensors"))[-1]
    shard.write_bytes(shard.read_bytes()[:-1] + b"\1")
    with pytest.raises(SettingsError, match="weights_sha256"):
        load_manifest(folder)
    shard.unlink()
    with pytest.raises(SettingsError, match=shard.name):
        load_manifest(folder)


@pytest.mark.parametrize(
    "changes",
    [
        {"format": 2},
        {"kind": "oracle"},
        {"temperature": 1},
        {"weights": "../elsewhere.safetensors"},
        {"template": None},
        {"template": "{passage} [SEP] {question}"},
        {"template": "{question} only"},
        {"tokenizer_sha256": None},
        {"max_tokens": 0},
        {"thresholds": {"upper": -0.9, "lower": 0.5, "strip": 0.0}},
        {"thresholds": {"upper": 0.5, "lower": -0.9}},
        {"kind": "embedding_head"},
    ],
    ids=str,
)
def test_wrong_manifest_is_refused_by_file_name(folder: Path, changes: dict[str, Any]) -> None:
    change(folder, **changes)
    with pytest.raises(SettingsError, match=r"evaluator\.json is not a usable manifest"):
        load_manifest(folder)


def test_crossed_thresholds_show_both_values(folder: Path) -> None:
    fields = json.loads((folder / MANIFEST).read_text("utf-8"))
    fields["thresholds"] = {"upper": -0.9, "lower": 0.5, "strip": 0.0}
    with pytest.raises(ValidationError, match=r"upper threshold -0\.9 is below lower threshold 0\.5"):
        EvaluatorManifest.model_validate(fields)


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b"\xff\xfe", b"null"])
def test_corrupt_manifest_is_refused(folder: Path, content: bytes) -> None:
    (folder / MANIFEST).write_bytes(content)
    with pytest.raises(SettingsError, match="not a usable manifest"):
        load_manifest(folder)


def test_crag_authors_checkpoint_gets_popqa_values_and_says_so(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    folder = make_t5(tmp_path / "authors")
    with caplog.at_level(logging.WARNING):
        manifest = load_manifest(folder)
    assert (manifest.thresholds.upper, manifest.thresholds.lower, manifest.thresholds.strip) == (
        0.592,
        -0.995,
        -0.5,
    )
    assert manifest.template == "{question} [SEP] {passage}"
    assert manifest.passage_form is PassageForm.TEXT
    assert manifest.max_tokens == 512
    assert "PopQA" in caplog.text


def test_folder_without_manifest_must_be_the_crag_authors_checkpoint(tmp_path: Path) -> None:
    for folder in (make_bert(tmp_path / "bert"), tmp_path):
        with pytest.raises(SettingsError, match=r"it needs evaluator\.json"):
            load_manifest(folder)


@pytest.mark.parametrize(
    ("form", "passage", "text"),
    [
        (PassageForm.TEXT, Passage("text", "title"), "text"),
        (PassageForm.TITLE_TEXT, Passage("text", "title"), "title // text"),
        (PassageForm.TITLE_TEXT, Passage("text"), "text"),
        (PassageForm.TITLE_TEXT, Passage("  ", "title"), "  "),
    ],
)
def test_passage_form(form: PassageForm, passage: Passage, text: str) -> None:
    assert form.of(passage) == text
