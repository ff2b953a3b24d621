"""A T5 evaluator's checkpoint, read through Hugging Face's own loader and checked."""

from pathlib import Path
from typing import Any

import torch
from transformers import AutoConfig, T5Config, T5ForSequenceClassification

from crag_core.errors import SettingsError
from deployments.backends.evaluator_manifest import EvaluatorManifest
from deployments.backends.model_folder import weights_file


def load_t5(
    folder: Path, manifest: EvaluatorManifest, dtype: torch.dtype = torch.float32
) -> T5ForSequenceClassification:
    """The model in the folder, whole or sharded, in one dtype throughout.

    Raises SettingsError when it is no T5 classifier with one output, or not the manifest's.
    """
    found = weights_file(folder).name
    if found != manifest.weights:
        raise SettingsError(
            f"the manifest in {folder} describes {manifest.weights}, but {found} would be loaded: "
            "remove one of them"
        )
    try:
        config = AutoConfig.from_pretrained(folder, trust_remote_code=False)
        if not isinstance(config, T5Config):
            raise SettingsError(
                f"the manifest in {folder} says kind {manifest.kind}, but the checkpoint is a "
                f"{config.model_type}: correct one of them"
            )
        model, report = _Loader.from_pretrained(folder, dtype=dtype, output_loading_info=True)
    except (OSError, ValueError, RuntimeError, KeyError) as error:
        raise SettingsError(f"{folder} holds no T5 classifier that can be loaded: {error}") from error
    if model.config.num_labels != 1:
        raise SettingsError(
            f"the checkpoint in {folder} has {model.config.num_labels} outputs: "
            "an evaluator has exactly one"
        )
    if report["missing_keys"]:
        missing = ", ".join(sorted(report["missing_keys"])[:3])
        raise SettingsError(
            f"the checkpoint in {folder} lacks {missing}: it was never trained as a classifier"
        )
    if not isinstance(model.config.eos_token_id, int):
        raise SettingsError(f"the checkpoint in {folder} names no single end mark: set eos_token_id")
    classifier: T5ForSequenceClassification = model.eval()
    return classifier


# With `output_loading_info` the loader returns a pair, which its types do not say.
_Loader: Any = T5ForSequenceClassification
