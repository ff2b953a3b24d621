"""An evaluator's checkpoint, read through Hugging Face's own loader and held against its manifest."""

from pathlib import Path
from typing import Any

import torch
from transformers import AutoConfig, AutoModelForSequenceClassification, T5Config

from crag_core.errors import SettingsError
from deployments.backends.evaluators.evaluator_manifest import EvaluatorKind, EvaluatorManifest
from deployments.backends.model_folder import weights_file


def load_classifier(folder: Path, manifest: EvaluatorManifest, dtype: torch.dtype) -> Any:
    """The classifier in the folder, whole or sharded, in one dtype throughout.

    Raises SettingsError when it is no classifier with one output, or not the manifest's.
    """
    found = weights_file(folder).name
    if found != manifest.weights:
        raise SettingsError(
            f"the manifest in {folder} describes {manifest.weights}, but {found} would be loaded: "
            "remove one of them"
        )
    try:
        config = AutoConfig.from_pretrained(folder, trust_remote_code=False)
        _check_kind(folder, manifest, config)
        model, report = AutoModelForSequenceClassification.from_pretrained(
            folder, trust_remote_code=False, dtype=dtype, output_loading_info=True
        )
    except (OSError, ValueError, RuntimeError, KeyError) as error:
        raise SettingsError(
            f"{folder} holds no sequence classifier that can be loaded: {error}"
        ) from error
    if config.num_labels != 1:
        raise SettingsError(
            f"the checkpoint in {folder} has {config.num_labels} outputs: an evaluator has exactly one"
        )
    if report["missing_keys"]:
        missing = ", ".join(sorted(report["missing_keys"])[:3])
        raise SettingsError(
            f"the checkpoint in {folder} lacks {missing}: it was never trained as a classifier"
        )
    return model.eval()


def _check_kind(folder: Path, manifest: EvaluatorManifest, config: Any) -> None:
    is_t5 = isinstance(config, T5Config)
    fits = is_t5 if manifest.kind is EvaluatorKind.T5 else not config.is_encoder_decoder
    if not fits:
        raise SettingsError(
            f"the manifest in {folder} says kind {manifest.kind}, but the checkpoint is a "
            f"{config.model_type}: correct one of them"
        )
    if is_t5 and not isinstance(config.eos_token_id, int):
        raise SettingsError(f"the checkpoint in {folder} names no single end mark: set eos_token_id")
    longest = getattr(config, "max_position_embeddings", manifest.max_tokens)
    if manifest.max_tokens > longest:
        raise SettingsError(
            f"the manifest in {folder} says max_tokens {manifest.max_tokens}, but the checkpoint "
            f"reads {longest}"
        )
