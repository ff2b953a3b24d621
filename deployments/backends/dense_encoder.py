"""The dense encoder: texts to embeddings, with any Hugging Face encoder (MiniLM, Contriever)."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.functional import normalize
from transformers import AutoModel

from crag_core.errors import SettingsError
from deployments.backends.device import torch_device
from deployments.backends.model_folder import fingerprint, model_folder
from deployments.backends.tokenization import Located, TextTokenizer, Tokens, pack, padded, padding_of
from deployments.settings import EncoderSettings, Pooling

Embeddings = NDArray[np.float32]
"""One row per text, [texts, dimension]."""


@dataclass(frozen=True, slots=True)
class Encoded:
    """Embeddings in the order of the texts, and which texts were longer than the encoder reads."""

    embeddings: Embeddings
    truncated: tuple[bool, ...]


class DenseEncoder:
    """A Hugging Face encoder with pooling; for one thread at a time."""

    def __init__(self, settings: EncoderSettings, device: str = "cpu") -> None:
        """Raises SettingsError when the folder holds no encoder that fits the settings."""
        self.settings = settings
        self.padding_tokens = 0
        """Tokens of no text that forward passes held so far."""
        self._folder = model_folder(settings.model, settings.revision)
        self._device = torch_device(device)
        self._tokenizer = TextTokenizer(self._folder)
        try:
            model, report = AutoModel.from_pretrained(
                self._folder, trust_remote_code=False, dtype=torch.float32, output_loading_info=True
            )
        except (OSError, ValueError, RuntimeError, KeyError) as error:
            raise SettingsError(
                f"{self._folder} holds no encoder that can be loaded: {error}"
            ) from error
        missing = sorted(key for key in report["missing_keys"] if not key.startswith("pooler."))
        if missing or model.config.is_encoder_decoder:
            raise SettingsError(
                f"{self._folder} holds a {model.config.model_type} that is no complete encoder: "
                f"{f'it lacks {missing[0]}' if missing else 'it has a decoder'}"
            )
        longest = getattr(model.config, "max_position_embeddings", settings.max_tokens)
        if settings.max_tokens > longest:
            raise SettingsError(
                f"max_tokens {settings.max_tokens} is more than the {longest} tokens "
                f"the encoder in {self._folder} reads: lower it"
            )
        self._model = model.to(self._device).eval()
        self._takes_types = getattr(model.config, "type_vocab_size", 0) > 0
        self.dimension: int = model.config.hidden_size

    @cached_property
    def fingerprint(self) -> str:
        """SHA-256 over the encoder's config, tokenizer and weights."""
        return fingerprint(self._folder)

    def encode(self, texts: Sequence[str]) -> Embeddings:
        """Embeddings [texts, dimension] in the order of the texts."""
        return self.encode_marked(texts).embeddings

    def encode_marked(self, texts: Sequence[str]) -> Encoded:
        """Embeddings, and a mark for each text that was cut at `max_tokens`."""
        inputs = self.tokenize(texts)
        return Encoded(self.embed(inputs), tuple(tokens.truncated for tokens in inputs))

    def tokenize(self, texts: Sequence[str]) -> list[Tokens]:
        """The inputs for the texts, in order, cut at `max_tokens`."""
        return self._tokenizer.encode(texts, self.settings.max_tokens)

    def locate(self, text: str) -> Located:
        """The input for a text, with the code points that each of its ids stands for."""
        return self._tokenizer.locate(text, self.settings.max_tokens)

    @property
    def mask_id(self) -> int:
        """The id of the vocabulary's mask, or of what comes nearest."""
        return self._tokenizer.mask_ids[0]

    def embed(self, inputs: Sequence[Tokens]) -> Embeddings:
        """Embeddings [inputs, dimension] in the order of the inputs."""
        embeddings = np.zeros((len(inputs), self.dimension), dtype=np.float32)
        lengths = [len(tokens.ids) for tokens in inputs]
        for batch in pack(lengths, self.settings.max_tokens_per_batch):
            embeddings[batch] = self._forward([inputs[i] for i in batch])
        return embeddings

    @torch.inference_mode()
    def _forward(self, inputs: Sequence[Tokens]) -> Embeddings:
        batch = padded(inputs, self._tokenizer.pad_id, self._device)
        self.padding_tokens += padding_of(inputs, batch)
        if not self._takes_types:
            del batch["token_type_ids"]
        states: Tensor = self._model(**batch).last_hidden_state
        match self.settings.pooling:
            case Pooling.CLS:
                pooled = states[:, 0]
            case Pooling.MEAN:
                mask = batch["attention_mask"].unsqueeze(-1).to(states.dtype)
                pooled = (states * mask).sum(1) / mask.sum(1).clamp(min=1)
        if self.settings.normalise:
            pooled = normalize(pooled, dim=-1)
        embeddings: Embeddings = pooled.float().cpu().numpy()
        return embeddings
