"""The embedded retrieval evaluator: sentence embeddings and a small trained head, fast on a CPU."""

import hashlib
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from cachetools import LRUCache

from crag_core.errors import EvaluationFailed, SettingsError
from crag_core.explaining import InputPieces, Piece, Side
from crag_core.strips import word_spans
from crag_core.types import Passage, Score
from deployments.backends.batching.pair_scorer import PreparedPair, ids_key
from deployments.backends.dense_encoder import DenseEncoder
from deployments.backends.evaluators.evaluator_head import EvaluatorHead, Floats, pair_features
from deployments.backends.evaluators.evaluator_manifest import EvaluatorManifest
from deployments.backends.evaluators.masking import PlacedTokens, joined, passage_segments, placed
from deployments.backends.tokenization import Tokens
from deployments.settings import EncoderSettings, EvaluatorSettings

_KNOWN_EMBEDDINGS = 4_096


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
        self._known: LRUCache[bytes, Floats] = LRUCache(_KNOWN_EMBEDDINGS)

    @property
    def padding_tokens(self) -> int:
        """Tokens of no text that the encoder's forward passes held so far."""
        return self._encoder.padding_tokens

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

    def maskable(self, question: str, passage: Passage) -> "MaskableEmbedding":
        """A pair whose words can be taken away from encoder and head alike."""
        segments = passage_segments(self.manifest.passage_form, passage)
        asked = placed(self._encoder.locate(question), [(Side.QUESTION, question)])
        read = placed(self._encoder.locate(joined(segments)), segments)
        beyond = (
            *_beyond(asked.pieces, Side.QUESTION, question),
            *_beyond(read.pieces, Side.PASSAGE, passage.text),
        )
        return MaskableEmbedding(question, passage, asked, read, beyond, self._encoder.mask_id)

    def score(self, pairs: Sequence[PreparedPair]) -> list[Score]:
        """One score per pair, in order; equal texts are embedded once. Raises EvaluationFailed."""
        if not pairs:
            return []
        chosen: list[Pair] = [pair.payload for pair in pairs]
        inputs = {ids_key(tokens.ids): tokens for pair in chosen for tokens in (pair.asked, pair.read)}
        embedded = self._embedded(inputs)
        features = [
            pair_features(
                pair.question,
                embedded[ids_key(pair.asked.ids)],
                [pair.passage],
                embedded[ids_key(pair.read.ids)][None],
            )[0]
            for pair in chosen
        ]
        scores = self._head.scores(np.stack(features))
        if not all(math.isfinite(score) for score in scores):
            raise EvaluationFailed("the retrieval evaluator gave a score that is no number")
        return scores

    def forget(self) -> None:
        """Embed every text anew, as when it had just been loaded; for measurements."""
        self._known.clear()

    def _embedded(self, inputs: Mapping[bytes, Tokens]) -> dict[bytes, Floats]:
        """Embeddings of texts by key; those of the last batches are known.

        A question's strips follow its documents, and of an explanation many inputs mask one side alone.
        """
        new = [key for key in inputs if key not in self._known]
        try:
            embeddings = self._encoder.embed([inputs[key] for key in new])
        except RuntimeError as error:
            raise EvaluationFailed("the retrieval evaluator failed on a batch") from error
        embedded = {key: self._known[key] for key in inputs if key in self._known}
        embedded |= zip(new, embeddings, strict=True)
        self._known.update(embedded)
        return embedded


@dataclass(frozen=True, slots=True)
class MaskableEmbedding:
    """A `MaskablePair` for the head: ids are masked for the encoder, and words taken out of the texts.

    Its pieces are those of question and passage as far as the encoder reads, and the words beyond,
    which the head alone reads.
    """

    question: str
    passage: Passage
    asked: PlacedTokens
    placed: PlacedTokens
    beyond: tuple[Piece, ...]
    mask_id: int

    @property
    def read(self) -> InputPieces:
        """All of question and passage: the head cuts nothing off."""
        is_cut = self.asked.tokens.truncated or self.placed.tokens.truncated
        return InputPieces((*self.asked.pieces, *self.placed.pieces, *self.beyond), is_cut)

    def masked(self, kept: int) -> PreparedPair:
        """The pair as if its masked words had not been said."""
        left = {
            Side.QUESTION: list(self.question),
            Side.TITLE: list(self.passage.title),
            Side.PASSAGE: list(self.passage.text),
        }
        for position, piece in enumerate(self.read.pieces):
            if piece.side in left and not kept >> position & 1:
                left[piece.side][piece.start : piece.end] = " " * (piece.end - piece.start)
        question, title, text = ("".join(characters) for characters in left.values())
        asked = self.asked.masked(kept, self.mask_id)
        read = self.placed.masked(kept >> len(self.asked.pieces), self.mask_id)
        return _prepared(Pair(question, asked, Passage(text, title), read))


def _beyond(pieces: Sequence[Piece], side: Side, text: str) -> Iterator[Piece]:
    """The words of a text that come after its pieces."""
    last = max((piece.end for piece in pieces if piece.side is side), default=0)
    for start, end in word_spans(text[last:]):
        yield Piece(side, last + start, last + end, text[last + start : last + end])


def _prepared(pair: Pair) -> PreparedPair:
    # the head reads the texts too, and masked texts with equal words differ in their ids
    texts = "\0".join((pair.question, pair.passage.title, pair.passage.text))
    key = hashlib.blake2b(texts.encode("utf-8", "surrogatepass"), digest_size=16)
    key.update(ids_key(pair.asked.ids) + ids_key(pair.read.ids))
    is_cut = pair.asked.truncated or pair.read.truncated
    return PreparedPair(key.digest(), len(pair.read.ids), pair, is_cut)
