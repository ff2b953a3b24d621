"""The embedded retrieval evaluator: sentence embeddings and a small trained head, fast on a CPU."""

import math
from collections.abc import Sequence
from pathlib import Path

from crag_core.errors import EvaluationFailed, SettingsError
from crag_core.types import Passage
from deployments.backends.dense_encoder import DenseEncoder
from deployments.backends.evaluator_head import EvaluatorHead, pair_features
from deployments.backends.evaluator_manifest import EvaluatorManifest
from deployments.backends.scored_passage import ScoredPassage
from deployments.settings import EncoderSettings, EvaluatorSettings


class EmbeddingEvaluator:
    """Scores a passage by its embedding and the question's; for one thread at a time."""

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
            max_tokens_per_batch=settings.max_tokens_per_batch,
        )
        self._encoder = DenseEncoder(encoder, settings.device)
        if self._encoder.fingerprint != manifest.encoder_sha256:
            raise SettingsError(
                f"the evaluator in {folder} was trained with encoder {manifest.encoder_sha256}, "
                f"but {settings.encoder} is {self._encoder.fingerprint}: set `encoder` to the right "
                "one, or train the head again"
            )
        self._head = EvaluatorHead.load(folder / manifest.weights)

    def score(self, question: str, passages: Sequence[Passage]) -> list[ScoredPassage]:
        """One entry per passage, in order; raises EvaluationFailed."""
        full = [position for position, passage in enumerate(passages) if passage.text.strip()]
        scored = [ScoredPassage(None, False)] * len(passages)
        if not full:
            return scored
        chosen = [passages[position] for position in full]
        texts = [self.manifest.passage_form.of(passage) for passage in chosen]
        try:
            encoded = self._encoder.encode_marked([question, *texts])
        except RuntimeError as error:
            raise EvaluationFailed("the retrieval evaluator failed on a batch") from error
        question_embedding, embeddings = encoded.embeddings[0], encoded.embeddings[1:]
        scores = self._head.scores(pair_features(question, question_embedding, chosen, embeddings))
        is_question_cut, *cut = encoded.truncated
        for position, score, is_cut in zip(full, scores, cut, strict=True):
            if not math.isfinite(score):
                raise EvaluationFailed("the retrieval evaluator gave a score that is no number")
            scored[position] = ScoredPassage(score, is_cut or is_question_cut)
        return scored
