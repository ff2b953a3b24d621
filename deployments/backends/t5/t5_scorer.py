"""The T5 evaluator: a question and its passages, to the scores of the T5 engine."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch

from crag_core.errors import EvaluationFailed, SettingsError
from crag_core.explaining import InputPieces, Side
from crag_core.types import Passage, Score
from deployments.backends.batching.pair_scorer import PreparedPair, ids_key
from deployments.backends.device import torch_device
from deployments.backends.evaluators.classifier_checkpoint import load_classifier
from deployments.backends.evaluators.evaluator_manifest import EvaluatorManifest
from deployments.backends.evaluators.masking import PlacedTokens, joined, passage_segments, placed
from deployments.backends.t5.t5_engine import CPU_TOKENS_PER_PIECE, DecisionSafety, T5Engine
from deployments.backends.tokenization import TextTokenizer, Tokens
from deployments.settings import EvaluatorSettings


class T5Scorer:
    """Scores pairs with a T5 of any size, in the manifest's dtype; a `PairScorer`.

    A T5 reads the manifest's template as one text with one end mark (CRAG, section 4.2). Scores within
    the manifest's `epsilon` of one of its thresholds are float32's, so action and kept strips are.
    """

    def __init__(self, folder: Path, manifest: EvaluatorManifest, settings: EvaluatorSettings) -> None:
        """Raises SettingsError when the checkpoint is not a T5 classifier with one output."""
        if manifest.dtype == "float16":
            raise SettingsError(
                f"the manifest in {folder} says float16, in which T5 overflows: say bfloat16 or float32"
            )
        if manifest.template is None:
            raise SettingsError(f"the manifest in {folder} has no template, which a T5 needs")
        self.manifest = manifest
        self._before_question, _, self._after_question = manifest.template.removesuffix(
            "{passage}"
        ).partition("{question}")
        self._tokenizer = TextTokenizer(folder)
        model = load_classifier(folder, manifest, torch.float32)
        if self._tokenizer.vocabulary_size > model.config.vocab_size:
            raise SettingsError(
                f"the tokenizer in {folder} has {self._tokenizer.vocabulary_size} tokens, more than the "
                "model's embeddings: copy the checkpoint's own tokenizer"
            )
        device = torch_device(settings.device)
        on_cpu = device.type == "cpu"
        tokens = settings.batching.max_tokens_per_batch
        thresholds = manifest.thresholds
        self.engine = T5Engine(
            model,
            max_tokens=manifest.max_tokens,
            dtype=getattr(torch, manifest.dtype),
            device=device,
            threads=settings.threads if on_cpu else 1,
            tokens_per_piece=min(tokens, CPU_TOKENS_PER_PIECE) if on_cpu else tokens,
            safety=DecisionSafety(
                (thresholds.upper, thresholds.lower, thresholds.strip), manifest.epsilon
            ),
        )
        try:
            self.engine.score_ids(
                [tokens.ids for tokens in self.tokenize("probe", [Passage("probe")]) if tokens]
            )
        except EvaluationFailed as error:
            raise SettingsError(f"the checkpoint in {folder} cannot score a pair: {error}") from error

    @property
    def identity(self) -> str:
        """Names the weights and the dtype, which scores depend on beside the pair."""
        return f"{self.manifest.evaluator_id}-{self.manifest.dtype}"

    @property
    def padding_tokens(self) -> int:
        """None: pairs are packed."""
        return 0

    @property
    def rescored_pairs(self) -> int:
        """Pairs computed a second time, in float32, because their score was near a threshold."""
        return self.engine.rescored

    def prepare(self, question: str, passages: Sequence[Passage]) -> list[PreparedPair | None]:
        """One entry per passage, in order, None for an empty one; raises InvalidQuestion if too long."""
        tokenized = self.tokenize(question, passages)
        return [None if tokens is None else _prepared(tokens) for tokens in tokenized]

    def score(self, pairs: Sequence[PreparedPair]) -> list[Score]:
        """One score per pair, in order; raises EvaluationFailed for the whole batch."""
        return self.score_ids([pair.payload for pair in pairs])

    def score_ids(self, inputs: Sequence[Sequence[int]]) -> list[Score]:
        """One score per list of token ids, in order; raises EvaluationFailed for the whole batch."""
        return self.engine.score_ids(inputs)

    def maskable(self, question: str, passage: Passage) -> "MaskableT5":
        """A pair whose masked runs become sentinels."""
        segments = [
            (Side.SEPARATOR, self._before_question),
            (Side.QUESTION, question),
            (Side.SEPARATOR, self._after_question),
            *passage_segments(self.manifest.passage_form, passage),
        ]
        located = self._tokenizer.locate(joined(segments), self.manifest.max_tokens)
        return MaskableT5(placed(located, segments), self._tokenizer.mask_ids)

    def tokenize(self, question: str, passages: Sequence[Passage]) -> list[Tokens | None]:
        """One model input per passage, in order; None for an empty one, which no model should see."""
        texts = [self.manifest.passage_form.of(passage) for passage in passages]
        full = [position for position, text in enumerate(texts) if text.strip()]
        inputs = self._tokenizer.encode_prefixed(
            f"{self._before_question}{question}{self._after_question}",
            [texts[position] for position in full],
            self.manifest.max_tokens,
        )
        tokenized: list[Tokens | None] = [None] * len(texts)
        for position, tokens in zip(full, inputs, strict=True):
            tokenized[position] = None if tokens.is_empty else tokens
        return tokenized


@dataclass(frozen=True, slots=True)
class MaskableT5:
    """A `MaskablePair` for a T5; `marks` are its sentinels, or what stands in for them."""

    placed: PlacedTokens
    marks: tuple[int, ...]

    @property
    def read(self) -> InputPieces:
        """Question, separator and passage, as far as the window reaches."""
        return InputPieces(self.placed.pieces, self.placed.tokens.truncated)

    def masked(self, kept: int) -> PreparedPair:
        """The ids, each masked run collapsed into a sentinel."""
        ids = self.placed.collapsed(kept, self.marks)
        return PreparedPair(ids_key(ids), len(ids), ids, self.placed.tokens.truncated)


def _prepared(tokens: Tokens) -> PreparedPair:
    return PreparedPair(ids_key(tokens.ids), len(tokens.ids), tokens.ids, tokens.truncated)
