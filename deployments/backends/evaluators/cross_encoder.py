"""The cross-encoder: a sequence classifier with one output that reads question and passage together."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from crag_core.errors import EvaluationFailed, SettingsError
from crag_core.explaining import InputPieces, Side
from crag_core.types import Passage, Score
from deployments.backends.batching.pair_scorer import PreparedPair, ids_key, score_passages
from deployments.backends.device import torch_device
from deployments.backends.evaluators.classifier_checkpoint import load_classifier
from deployments.backends.evaluators.evaluator_manifest import EvaluatorManifest
from deployments.backends.evaluators.masking import PlacedTokens, joined, passage_segments, placed
from deployments.backends.tokenization import TextTokenizer, Tokens, pack, padded, padding_of
from deployments.settings import EvaluatorSettings


class CrossEncoder:
    """A T5 of any size, or a BERT-like classifier, by Hugging Face's own forward; a `PairScorer`.

    A T5 reads the manifest's template as one text with one end mark (CRAG, section 4.2); others read
    a text pair.
    """

    rescored_pairs = 0

    def __init__(self, folder: Path, manifest: EvaluatorManifest, settings: EvaluatorSettings) -> None:
        """Raises SettingsError when the checkpoint is not a one-output classifier of its kind."""
        self.manifest = manifest
        self.padding_tokens = 0
        self._tokenizer = TextTokenizer(folder)
        self._device = torch_device(settings.device)
        self._max_tokens_per_batch = settings.batching.max_tokens_per_batch
        self._model = load_classifier(folder, manifest, getattr(torch, manifest.dtype)).to(self._device)
        self._takes_types = getattr(self._model.config, "type_vocab_size", 0) > 0
        if self._tokenizer.vocabulary_size > self._model.get_input_embeddings().num_embeddings:
            raise SettingsError(
                f"the tokenizer in {folder} has {self._tokenizer.vocabulary_size} tokens, more than the "
                "model's embeddings: copy the checkpoint's own tokenizer"
            )
        try:
            score_passages(self, "probe", [Passage("probe")])
        except (EvaluationFailed, IndexError) as error:
            raise SettingsError(f"the checkpoint in {folder} cannot score a pair: {error}") from error

    @property
    def identity(self) -> str:
        """Names the weights and the dtype, which scores depend on beside the pair."""
        return f"{self.manifest.evaluator_id}-{self.manifest.dtype}"

    def prepare(self, question: str, passages: Sequence[Passage]) -> list[PreparedPair | None]:
        """One entry per passage, in order, None for an empty one; raises InvalidQuestion if too long."""
        tokenized = self.tokenize(question, passages)
        return [None if tokens is None else _prepared(tokens) for tokens in tokenized]

    def maskable(self, question: str, passage: Passage) -> "MaskableCrossEncoding":
        """A pair whose masked ids become the vocabulary's mask; for a text pair, not for a T5."""
        segments = passage_segments(self.manifest.passage_form, passage)
        located = self._tokenizer.locate_pair(question, joined(segments), self.manifest.max_tokens)
        asked = [(Side.QUESTION, question)]
        return MaskableCrossEncoding(placed(located, asked, segments), self._tokenizer.mask_ids[0])

    def tokenize(self, question: str, passages: Sequence[Passage]) -> list[Tokens | None]:
        """One model input per passage, in order; None for an empty one, which no model should see."""
        texts = [self.manifest.passage_form.of(passage) for passage in passages]
        full = [position for position, text in enumerate(texts) if text.strip()]
        inputs = self._pairs(question, [texts[position] for position in full])
        tokenized: list[Tokens | None] = [None] * len(texts)
        for position, tokens in zip(full, inputs, strict=True):
            tokenized[position] = None if tokens.is_empty else tokens
        return tokenized

    def score(self, pairs: Sequence[PreparedPair]) -> list[Score]:
        """One score per pair, in order, in batches of similar length; raises EvaluationFailed."""
        scores = [0.0] * len(pairs)
        for batch in pack([pair.tokens for pair in pairs], self._max_tokens_per_batch):
            scored = self._forward([pairs[place].payload for place in batch])
            for place, score in zip(batch, scored, strict=True):
                scores[place] = score
        return scores

    def _pairs(self, question: str, texts: Sequence[str]) -> list[Tokens]:
        max_tokens = self.manifest.max_tokens
        if self.manifest.template is None:
            return self._tokenizer.encode_pairs(question, texts, max_tokens)
        prefix = self.manifest.template.removesuffix("{passage}").replace("{question}", question)
        return self._tokenizer.encode_prefixed(prefix, texts, max_tokens)

    @torch.inference_mode()
    def _forward(self, inputs: Sequence[Tokens]) -> list[float]:
        batch = padded(inputs, self._tokenizer.pad_id, self._device)
        self.padding_tokens += padding_of(inputs, batch)
        if not self._takes_types:
            del batch["token_type_ids"]
        try:
            logits: Tensor = self._model(**batch).logits
        except (RuntimeError, ValueError) as error:
            raise EvaluationFailed("the retrieval evaluator failed on a batch") from error
        scores: list[float] = logits.squeeze(-1).float().cpu().tolist()
        if not all(math.isfinite(score) for score in scores):
            raise EvaluationFailed(
                "the retrieval evaluator gave a score that is no number: its weights overflow "
                f"in {self.manifest.dtype}"
            )
        return scores


@dataclass(frozen=True, slots=True)
class MaskableCrossEncoding:
    """A `MaskablePair` for a cross-encoder; its separators belong to the vocabulary and stay."""

    placed: PlacedTokens
    mask_id: int

    @property
    def read(self) -> InputPieces:
        """Question and passage, as far as the window reaches."""
        return InputPieces(self.placed.pieces, self.placed.tokens.truncated)

    def masked(self, kept: int) -> PreparedPair:
        """The ids with their types, masked ones replaced."""
        return _prepared(self.placed.masked(kept, self.mask_id))


def _prepared(tokens: Tokens) -> PreparedPair:
    return PreparedPair(ids_key(tokens.ids), len(tokens.ids), tokens, tokens.truncated)
