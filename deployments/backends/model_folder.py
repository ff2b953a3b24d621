"""Model folders: where a model's files lie, and the fingerprint of what they hold."""

import hashlib
import json
from pathlib import Path

from huggingface_hub import snapshot_download

from crag_core.errors import SettingsError

TOKENIZER_FILES = (
    "tokenizer.json",
    "spiece.model",
    "sentencepiece.bpe.model",
    "vocab.txt",
    "vocab.json",
)
"""Files a tokenizer is made of; the first one present identifies it."""

WEIGHTS_FILES = (
    "model.safetensors",
    "model.safetensors.index.json",
    "pytorch_model.bin",
    "pytorch_model.bin.index.json",
)
"""Files that weights are found by, in the order in which the loader looks."""

_PATTERNS = ["*.json", "*.safetensors", "pytorch_model*.bin", "*.txt", "*.model"]


def model_folder(model: str, revision: str | None = None) -> Path:
    """The folder that holds a model named by folder or by hub name; a hub model is fetched once.

    Raises SettingsError when there is neither.
    """
    folder = Path(model).expanduser()
    if folder.is_dir():
        return folder
    if model.startswith(("/", ".", "~")):
        raise SettingsError(
            f"model folder {model} does not exist: correct the setting or fetch the model"
        )
    try:
        return Path(snapshot_download(model, revision=revision, allow_patterns=_PATTERNS))
    except (OSError, ValueError) as error:
        raise SettingsError(
            f"model {model} is no folder and could not be had from the model hub: "
            "name an existing folder, or fetch the model while the hub can be reached"
        ) from error


def local_folder(model: str) -> str:
    """A model that is never fetched: the folder that its name is, or the name of its package."""
    folder = Path(model).expanduser()
    return str(folder) if folder.is_dir() else model


def fingerprint(folder: Path) -> str:
    """SHA-256 over a model's config, tokenizer and weights: equal when the embeddings are.

    Raises SettingsError when one of the three is missing.
    """
    parts = (
        sha256_of(folder / "config.json"),
        sha256_of(tokenizer_file(folder)),
        weights_sha256(folder, weights_file(folder).name),
    )
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()


def weights_file(folder: Path) -> Path:
    """The weights that a model's loader picks, or the index of their shards.

    Raises SettingsError when there are none.
    """
    for name in WEIGHTS_FILES:
        if (folder / name).is_file():
            return folder / name
    raise SettingsError(f"{folder} holds no weights: it needs one of {', '.join(WEIGHTS_FILES)}")


def tokenizer_file(folder: Path) -> Path:
    """The file that identifies a model's tokenizer; raises SettingsError when there is none."""
    for name in TOKENIZER_FILES:
        if (folder / name).is_file():
            return folder / name
    raise SettingsError(f"{folder} holds no tokenizer: it needs one of {', '.join(TOKENIZER_FILES)}")


def weights_sha256(folder: Path, name: str) -> str:
    """SHA-256 of a weights file; of sharded weights, named by their index, over index and shards.

    Raises SettingsError when a file is missing or the index is no JSON.
    """
    path = folder / name
    if not name.endswith(".index.json"):
        return sha256_of(path)
    digest = hashlib.sha256(sha256_of(path).encode())
    try:
        shards = sorted(set(json.loads(path.read_text("utf-8"))["weight_map"].values()))
    except (ValueError, KeyError, AttributeError, TypeError) as error:
        raise SettingsError(f"{path} is no index of sharded weights: fetch the model again") from error
    for shard in shards:
        digest.update(sha256_of(folder / shard).encode())
    return digest.hexdigest()


def sha256_of(path: Path) -> str:
    """SHA-256 of a file in hexadecimal; raises SettingsError when it cannot be read."""
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise SettingsError(f"{path} cannot be read: copy the model's files again") from error
