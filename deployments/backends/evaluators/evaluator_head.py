"""The embedded evaluator's head: a small network over a few features of question and passage."""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Self

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save

from crag_core.errors import SettingsError
from crag_core.types import Passage
from deployments.backends.evaluators.word_overlap import OVERLAP_FEATURES, word_overlap

FEATURES = ("cosine", *OVERLAP_FEATURES)
"""What the head reads, in order."""

Floats = NDArray[np.float32]


def pair_features(
    question: str, question_embedding: Floats, passages: Sequence[Passage], embeddings: Floats
) -> Floats:
    """Features [passages, len(FEATURES)] of a question, embedded [dimension], with each passage."""
    cosines = (embeddings * question_embedding).sum(axis=1)
    overlaps = [word_overlap(question, passage) for passage in passages]
    return np.array(
        [(cosine, *overlap) for cosine, overlap in zip(cosines, overlaps, strict=True)], dtype=np.float32
    )


@dataclass(frozen=True, slots=True)
class EvaluatorHead:
    """One hidden layer of rectified units; fitted to -1 and +1, as the papers' T5 is.

    `hidden_weight` [features, units], `hidden_bias` [units], `output_weight` [units],
    `output_bias` [1].
    """

    hidden_weight: Floats
    hidden_bias: Floats
    output_weight: Floats
    output_bias: Floats

    def scores(self, features: Floats) -> list[float]:
        """Scores of features [pairs, features], each from its own row."""
        hidden = np.maximum(features @ self.hidden_weight + self.hidden_bias, 0.0)
        scores: list[float] = (hidden @ self.output_weight + self.output_bias).tolist()
        return scores

    def save(self, path: Path) -> None:
        """Write the weights with the names of their features, whole or not at all."""
        aside = path.with_name(f"{path.name}.tmp")
        aside.write_bytes(save(asdict(self), metadata={"features": json.dumps(FEATURES)}))
        aside.replace(path)

    @classmethod
    def load(cls, path: Path) -> Self:
        """The head in a file; raises SettingsError when it is none, or reads other features."""
        try:
            with safe_open(path, framework="numpy") as file:
                named = json.loads((file.metadata() or {}).get("features", "[]"))
                head = cls(**{field.name: file.get_tensor(field.name) for field in fields(cls)})
        except (OSError, ValueError, SafetensorError) as error:
            raise SettingsError(f"{path} holds no evaluator head: train it again") from error
        if tuple(named) != FEATURES or len(head.hidden_weight) != len(FEATURES):
            raise SettingsError(
                f"{path} reads the features {', '.join(named)}, but this version computes "
                f"{', '.join(FEATURES)}: train the head again"
            )
        return head
