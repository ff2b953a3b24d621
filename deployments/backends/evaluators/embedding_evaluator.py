"""The embedded retrieval evaluator: sentence embeddings and a small trained head, fast on a CPU."""

import hashlib
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from crag_core.errors import EvaluationFailed, SettingsError
from crag_core.types import Passage, Score
from deployments.backends.batching.pair_scorer import PreparedPair
from deployments.backends.dense_encoder import DenseEncoder
from deployments.backends.evaluators.evaluator_head import EvaluatorHead, pair_features
from deployments.backends.evaluators.evaluator_manifest import EvaluatorManifest
from deployments.backends.tokenization import Tokens
from deployments.settings import EncoderSettings, EvaluatorSettings


@dataclass(frozen=True, slots=True)
class Pair:
    """A question and a passage, as text for the head and as tokens for the encoder."""

    question: str
    asked: Tokens
    passage: Passage
    read: Tokens


class EmbeddingEvaluator:
    """Scores a passage by its embedding and the question's; a `PairScorer`."""

    rescored_pairs = 0

    def __init__(self, folder: Path, manifest: EvaluatorManifest, settings: EvaluatorSettings) -> None:
        """Raises SettingsError when the encoder is not the one that the head was trained with."""
        if settings.encoder is None:
            raise SettingsError(
                f"the evaluator in {folder} is a head over an encoder: set `encoder` to that encoder"
            )
        self.manifest = manifest
        encoder = EncoderSettings(
            model=settings.encoder,
            max_tokens=manifest.max_tokens,
            max_tokens_per_batch=settings.batching.max_tokens_per_batch,
        )
        self._encoder = DenseEncoder(encoder, settings.device)
        if self._encoder.fingerprint != manifest.encoder_sha256:
            raise SettingsError(
                f"the evaluator in {folder} was trained with encoder {manifest.encoder_sha256}, "
                f"but {settings.encoder} is {self._encoder.fingerprint}: set `encoder` to the right "
                "one, or train the head again"
            )
        self._head = EvaluatorHead.load(folder / manifest.weights)

    @property
    def identity(self) -> str:
        """Names the head, which is bound to its encoder."""
        return self.manifest.evaluator_id

    def prepare(self, question: str, passages: Sequence[Passage]) -> list[PreparedPair | None]:
        """One entry per passage, in order, None for an empty one."""
        full = [passage for passage in passages if passage.text.strip()]
        asked, *read = self._encoder.tokenize(
            [question, *(self.manifest.passage_form.of(passage) for passage in full)]
        )
        tokens = iter(read)
        return [
            _prepared(Pair(question, asked, passage, next(tokens))) if passage.text.strip() else None
            for passage in passages
        ]

    def score(self, pairs: Sequence[PreparedPair]) -> list[Score]:
        """One score per pair, in order; a question is embedded once. Raises EvaluationFailed."""
        if not pairs:
            return []
        chosen: list[Pair] = [pair.payload for pair in pairs]
        questions = {pair.question: pair.asked for pair in chosen}
        try:
            embeddings = self._encoder.embed([*questions.values(), *(pair.read for pair in chosen)])
        except RuntimeError as error:
            raise EvaluationFailed("the retrieval evaluator failed on a batch") from error
        asked = dict(zip(questions, embeddings, strict=False))
        features = [
            pair_features(pair.question, asked[pair.question], [pair.passage], embedding[None])[0]
            for pair, embedding in zip(chosen, embeddings[len(questions) :], strict=True)
        ]
        scores = self._head.scores(np.stack(features))
        if not all(math.isfinite(score) for score in scores):
            raise EvaluationFailed("the retrieval evaluator gave a score that is no number")
        return scores


def _prepared(pair: Pair) -> PreparedPair:
    # the head reads the texts too, so equal ids alone do not make equal pairs
    text = "\0".join((pair.question, pair.passage.title, pair.passage.text))
    key = hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).digest()
    is_cut = pair.asked.truncated or pair.read.truncated
    return PreparedPair(key, len(pair.read.ids), pair, is_cut)
