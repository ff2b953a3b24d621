"""The seam between scheduling and scoring: pairs made ready by the CPU, scored by the device."""

import hashlib
from array import array
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from crag_core.types import Passage, Score
from deployments.backends.batching.scored_passage import ScoredPassage


@dataclass(frozen=True, slots=True)
class PreparedPair:
    """A question with one passage, ready for the device.

    Equal model inputs have equal keys; a key outlives its pair in the score cache, so keep it small
    (a digest of the token ids). `payload` is the scorer's own.
    """

    key: Hashable
    tokens: int
    payload: Any
    truncated: bool = False


class PairScorer(Protocol):
    """Scores pairs in two steps, so that one batch is prepared while the device works on another."""

    @property
    def identity(self) -> str:
        """Names what scores depend on beside the pair: weights and dtype."""
        ...

    def prepare(self, question: str, passages: Sequence[Passage]) -> Sequence[PreparedPair | None]:
        """One entry per passage, in order, None for an empty one; called by one thread of its own.

        Raises InvalidQuestion when the question leaves no room for a passage.
        """
        ...

    def score(self, pairs: Sequence[PreparedPair]) -> Sequence[Score]:
        """One score per pair, in order; called by the device thread alone.

        May raise anything: the batch is then bisected until the pair at fault stands alone.
        """
        ...


def ids_key(ids: Sequence[int]) -> bytes:
    """A small key for a list of token ids."""
    return hashlib.blake2b(array("I", ids).tobytes(), digest_size=16).digest()


def score_passages(
    scorer: PairScorer, question: str, passages: Sequence[Passage]
) -> list[ScoredPassage]:
    """The passages of one question, scored at once and alone; what a batcher does for many."""
    prepared = scorer.prepare(question, passages)
    scores = iter(scorer.score([pair for pair in prepared if pair is not None]))
    return [
        ScoredPassage(None, False) if pair is None else ScoredPassage(next(scores), pair.truncated)
        for pair in prepared
    ]
