"""The retrieval evaluator's manifest: `evaluator.json`, which travels with the weights it describes."""

import json
import logging
from enum import StrEnum
from pathlib import Path
from typing import Literal, Self

from pydantic import Field, ValidationError, field_validator, model_validator

from crag_core.errors import SettingsError
from crag_core.settings import ActionThresholds, Settings
from crag_core.types import Passage
from deployments.backends.model_folder import (
    sha256_of,
    tokenizer_file,
    weights_file,
    weights_sha256,
)

MANIFEST = "evaluator.json"

_SHA256 = r"^[0-9a-f]{64}$"

_log = logging.getLogger(__name__)


class EvaluatorKind(StrEnum):
    """What a checkpoint is, and so how question and passage reach it."""

    T5 = "t5"
    SEQUENCE_CLASSIFIER = "sequence_classifier"
    EMBEDDING_HEAD = "embedding_head"


class PassageForm(StrEnum):
    """What of a passage the evaluator reads."""

    TEXT = "text"
    TITLE_TEXT = "title_text"

    def of(self, passage: Passage) -> str:
        """The passage as the evaluator reads it; one without text stays empty, whatever its title.

        >>> PassageForm.TITLE_TEXT.of(Passage("A city in Poland.", "Łódź"))
        'Łódź // A city in Poland.'
        """
        match self:
            case PassageForm.TITLE_TEXT if passage.title and passage.text.strip():
                return f"{passage.title} // {passage.text}"
            case _:
                return passage.text


class EvaluatorThresholds(Settings):
    """The checkpoint's thresholds, on the scale of its scores."""

    upper: float = Field(description="A best score at or above this means CORRECT.")
    lower: float = Field(description="A best score below this means INCORRECT.")
    strip: float = Field(allow_inf_nan=False, description="Strips below this are dropped.")

    @model_validator(mode="after")
    def _action_thresholds_fit(self) -> Self:
        self.action()
        return self

    def action(self) -> ActionThresholds:
        """The thresholds of the action trigger."""
        return ActionThresholds(upper=self.upper, lower=self.lower)


class EvaluatorManifest(Settings):
    """What a retrieval evaluator's checkpoint needs to be used as it was trained."""

    format: Literal[1] = Field(description="Version of this manifest's form.")
    kind: EvaluatorKind = Field(description="What the checkpoint is.")
    weights: str = Field(description="File name of the weights, or of the index of their shards.")
    weights_sha256: str = Field(pattern=_SHA256, description="Hash of the weights, all shards included.")
    tokenizer_sha256: str | None = Field(
        None, pattern=_SHA256, description="Hash of the tokenizer file; null where the encoder has it."
    )
    encoder_sha256: str | None = Field(
        None, pattern=_SHA256, description="Fingerprint of the encoder an `embedding_head` belongs to."
    )
    template: str | None = Field(
        None, description="How a T5 reads a pair: `{question}` first, `{passage}` last."
    )
    passage_form: PassageForm = Field(description="Whether the passage's title is part of the input.")
    max_tokens: int = Field(ge=8, description="Longer inputs lose the end of the passage.")
    dtype: Literal["float32", "bfloat16", "float16"] = Field(description="Type of the weights in use.")
    thresholds: EvaluatorThresholds = Field(description="The checkpoint's thresholds.")
    epsilon: float = Field(ge=0, description="How far a score may move with the batch or the device.")
    trained_on: str = Field(description="Where the labels came from.")
    command: str = Field(description="The command that made the checkpoint.")

    @field_validator("weights")
    @classmethod
    def _bare_name(cls, weights: str) -> str:
        if Path(weights).name != weights:
            raise ValueError(f"weights must be a file beside the manifest, got {weights!r}")
        return weights

    @model_validator(mode="after")
    def _fields_of_its_kind(self) -> Self:
        match self.kind:
            case EvaluatorKind.T5:
                if self.template is None or not _is_template(self.template):
                    raise ValueError(
                        "kind t5 needs a template with {question} once and {passage} once, at its end, "
                        f"got {self.template!r}"
                    )
            case EvaluatorKind.EMBEDDING_HEAD:
                if self.encoder_sha256 is None:
                    raise ValueError("kind embedding_head needs encoder_sha256")
            case EvaluatorKind.SEQUENCE_CLASSIFIER:
                pass
        if self.kind is not EvaluatorKind.EMBEDDING_HEAD and self.tokenizer_sha256 is None:
            raise ValueError(f"kind {self.kind} needs tokenizer_sha256")
        return self

    @property
    def evaluator_id(self) -> str:
        """Names the checkpoint in traces: its kind and the start of its weights' hash."""
        return f"{self.kind}-{self.weights_sha256[:12]}"


def load_manifest(folder: Path) -> EvaluatorManifest:
    """The manifest of an evaluator's folder, checked against the files beside it.

    The CRAG authors' checkpoint has none and gets the values they published for PopQA. Raises
    SettingsError when the manifest is missing, unreadable, or belongs to other files.
    """
    path = folder / MANIFEST
    if not path.is_file():
        return _crag_authors_manifest(folder)
    try:
        manifest = EvaluatorManifest.model_validate_json(path.read_bytes())
    except (OSError, ValidationError) as error:
        raise SettingsError(f"{path} is not a usable manifest: {error}") from error
    _check_hash(
        "weights_sha256", manifest.weights_sha256, weights_sha256(folder, manifest.weights), path
    )
    if manifest.tokenizer_sha256 is not None:
        found = sha256_of(tokenizer_file(folder))
        _check_hash("tokenizer_sha256", manifest.tokenizer_sha256, found, path)
    return manifest


def write_manifest(folder: Path, manifest: EvaluatorManifest) -> None:
    """Write `evaluator.json`, whole or not at all."""
    aside = folder / f"{MANIFEST}.tmp"
    aside.write_text(manifest.model_dump_json(indent=2) + "\n", "utf-8")
    aside.replace(folder / MANIFEST)


def _crag_authors_manifest(folder: Path) -> EvaluatorManifest:
    try:
        architectures = json.loads((folder / "config.json").read_bytes()).get("architectures")
    except (OSError, ValueError, AttributeError):
        architectures = None
    if architectures != ["T5ForSequenceClassification"]:
        raise SettingsError(
            f"{folder} holds no evaluator: it needs {MANIFEST} beside its weights, "
            "or to be the CRAG authors' T5 checkpoint"
        )
    _log.warning("%s has no %s: taking the CRAG authors' values for PopQA", folder, MANIFEST)
    weights = weights_file(folder)
    return EvaluatorManifest(
        format=1,
        kind=EvaluatorKind.T5,
        weights=weights.name,
        weights_sha256=weights_sha256(folder, weights.name),
        tokenizer_sha256=sha256_of(tokenizer_file(folder)),
        template="{question} [SEP] {passage}",
        passage_form=PassageForm.TEXT,
        max_tokens=512,
        dtype="float32",
        thresholds=EvaluatorThresholds(upper=0.592, lower=-0.995, strip=-0.5),
        epsilon=1e-5,
        trained_on="PopQA, by the authors of CRAG",
        command="unknown",
    )


def _is_template(template: str) -> bool:
    return (
        template.count("{question}") == 1
        and template.count("{passage}") == 1
        and template.endswith("{passage}")
    )


def _check_hash(field: str, recorded: str, found: str, path: Path) -> None:
    if recorded != found:
        raise SettingsError(
            f"{path} belongs to other files: its {field} is {recorded}, the folder's is {found}; "
            "copy manifest and files together"
        )
