"""The CRAG authors' released checkpoint, made a folder that every loader takes, with its manifest."""

import json
import shutil
from collections.abc import Mapping
from pathlib import Path

from safetensors import SafetensorError, safe_open

from crag_core.errors import SettingsError
from deployments.backends.evaluators.evaluator_manifest import (
    MANIFEST,
    EvaluatorKind,
    EvaluatorManifest,
    EvaluatorThresholds,
    PassageForm,
    write_manifest,
)
from deployments.backends.evaluators.released_task import ReleasedTask
from deployments.backends.model_folder import (
    WEIGHTS_FILES,
    sha256_of,
    tokenizer_file,
    weights_file,
    weights_sha256,
)

_INDEX = "model.safetensors.index.json"
_COPIED = (".json", ".model", ".txt", ".safetensors", ".bin")
_STRIP = -0.5


def import_released(source: Path, out: Path, task: ReleasedTask, command: str) -> EvaluatorManifest:
    """Copy a released folder as it is, index its shards where they have no index, write a manifest.

    Raises SettingsError when it holds no T5 classifier, lacks its tokenizer, or a shard is broken; then
    `out` is not there.
    """
    if out.exists():
        raise SettingsError(f"{out} exists: choose another --out, or remove it")
    if not _is_t5_classifier(source):
        raise SettingsError(f"{source} holds no T5ForSequenceClassification: name the released folder")
    try:
        tokenizer_file(source)
    except SettingsError as error:
        raise SettingsError(f"{error}; the released tokenizer is t5-large's: copy its files") from error
    aside = out.with_name(f"{out.name}.partial")
    shutil.rmtree(aside, ignore_errors=True)
    aside.mkdir(parents=True)
    for path in sorted(source.iterdir()):
        if path.is_file() and path.suffix in _COPIED and path.name != MANIFEST:
            shutil.copyfile(path, aside / path.name)
    if not any((aside / name).is_file() for name in WEIGHTS_FILES):
        _index_shards(aside)
    weights = weights_file(aside).name
    upper, lower = task.upper_and_lower
    # PopQA's passages are bare text, those of the other tasks have their title before them
    form = PassageForm.TEXT if task is ReleasedTask.POPQA else PassageForm.TITLE_TEXT
    manifest = EvaluatorManifest(
        format=1,
        kind=EvaluatorKind.T5,
        weights=weights,
        weights_sha256=weights_sha256(aside, weights),
        tokenizer_sha256=sha256_of(tokenizer_file(aside)),
        template="{question} [SEP] {passage}",
        passage_form=form,
        max_tokens=512,
        dtype="float32",
        thresholds=EvaluatorThresholds(upper=upper, lower=lower, strip=_STRIP),
        epsilon=1e-5,
        trained_on="PopQA, by the authors of CRAG",
        command=command,
    )
    write_manifest(aside, manifest)
    aside.replace(out)
    return manifest


def _is_t5_classifier(folder: Path) -> bool:
    try:
        config = json.loads((folder / "config.json").read_bytes())
        return bool(config.get("architectures") == ["T5ForSequenceClassification"])
    except (OSError, ValueError, AttributeError):
        return False


def _index_shards(folder: Path) -> None:
    """Write the index that the loader finds shards by, out of the names in the shards themselves."""
    shards = sorted(folder.glob("*.safetensors"))
    if not shards:
        raise SettingsError(f"{folder} holds no weights: it needs one of {', '.join(WEIGHTS_FILES)}")
    places: dict[str, str] = {}
    total_bytes = 0
    for shard in shards:
        for name, size in _tensors(shard).items():
            if name in places:
                raise SettingsError(
                    f"{name} is in {places[name]} and in {shard.name}: the shards are of two checkpoints"
                )
            places[name] = shard.name
            total_bytes += size
    index = {"metadata": {"total_size": total_bytes}, "weight_map": places}
    (folder / _INDEX).write_text(json.dumps(index, indent=1) + "\n", "utf-8")


def _tensors(shard: Path) -> Mapping[str, int]:
    """The names of a shard's tensors, with their numbers of values times four."""
    try:
        with safe_open(shard, framework="numpy") as file:
            names: list[str] = file.keys()
            return {name: _values(file.get_slice(name).get_shape()) * 4 for name in names}
    except (OSError, SafetensorError) as error:
        raise SettingsError(f"{shard} is no whole safetensors file: fetch it again") from error


def _values(shape: list[int]) -> int:
    count = 1
    for length in shape:
        count *= length
    return count
