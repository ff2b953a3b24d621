"""Labelled pairs as a model reads them, in training exactly as in serving."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.utils.data import Dataset
from transformers import AutoConfig, T5Config

from crag_core.errors import InvalidQuestion, SettingsError
from deployments.backends.evaluators.evaluator_manifest import PassageForm
from deployments.backends.tokenization import TextTokenizer, Tokens, padded
from training.labelled_pairs import LabelledPair

TEMPLATE = "{question} [SEP] {passage}"
_PASSAGE = "{passage}"


class EncodedPairs(Dataset[dict[str, Any]]):
    """Pairs as a model reads them, with their targets."""

    def __init__(self, inputs: Sequence[Tokens], targets: Sequence[float]) -> None:
        self._inputs, self._targets = inputs, targets

    def __len__(self) -> int:
        return len(self._inputs)

    def __getitem__(self, place: int) -> dict[str, Any]:
        return {"tokens": self._inputs[place], "label": self._targets[place]}


@dataclass(frozen=True)
class Collate:
    """A batch, padded to its longest input."""

    pad_id: int
    takes_types: bool

    def __call__(self, examples: Sequence[dict[str, Any]]) -> dict[str, Tensor]:
        batch = padded([each["tokens"] for each in examples], self.pad_id, torch.device("cpu"))
        if not self.takes_types:
            del batch["token_type_ids"]
        batch["labels"] = torch.tensor([each["label"] for each in examples], dtype=torch.float32)
        return batch


class PairEncoder:
    """Makes a base model's inputs of pairs."""

    def __init__(self, base: Path, passage_form: PassageForm, max_tokens: int) -> None:
        """Raises SettingsError when the base holds no usable tokenizer."""
        self._tokenizer = TextTokenizer(base)
        self._form, self._max_tokens = passage_form, max_tokens
        self._is_t5 = is_t5(base)

    def __call__(self, pairs: Sequence[LabelledPair]) -> EncodedPairs:
        """All pairs; raises SettingsError for a question that leaves no room for a passage."""
        return EncodedPairs(
            [self._tokens(pair) for pair in pairs],
            [1.0 if pair.is_relevant else -1.0 for pair in pairs],
        )

    def _tokens(self, pair: LabelledPair) -> Tokens:
        text = self._form.of(pair.passage)
        try:
            if self._is_t5:
                prefix = TEMPLATE.removesuffix(_PASSAGE).replace("{question}", pair.question)
                return self._tokenizer.encode_prefixed(prefix, [text], self._max_tokens)[0]
            return self._tokenizer.encode_pairs(pair.question, [text], self._max_tokens)[0]
        except InvalidQuestion as error:
            raise SettingsError(f"{pair.group}: {error.message}") from error


def is_t5(base: Path) -> bool:
    """Whether a folder's model is a T5; raises SettingsError when it holds none."""
    try:
        config = AutoConfig.from_pretrained(base, trust_remote_code=False)
    except (OSError, ValueError) as error:
        raise SettingsError(f"{base} holds no model: {error}") from error
    return isinstance(config, T5Config)
