"""The paragraphs that irrelevant passages are taken from: by title, by chance, and by text search."""

import random
from collections.abc import Container, Iterable, Iterator, Sequence
from typing import Any, Protocol

import numpy as np
from scipy.sparse import csr_array
from sklearn.feature_extraction.text import CountVectorizer, TfidfVectorizer

from crag_core.types import Passage

_K1, _B = 1.2, 0.75


class Weighting(Protocol):
    """Turns texts and queries into rows whose products say how near they are."""

    def fit_transform(self, texts: Iterable[str]) -> Any: ...
    def transform(self, texts: Iterable[str]) -> Any: ...


def tf_idf() -> Weighting:
    """Cosines of words weighted by how rare they are."""
    weighting: Weighting = TfidfVectorizer(sublinear_tf=True, stop_words="english", dtype=np.float32)
    return weighting


class Bm25:
    """BM25 (Robertson and Zaragoza, 2009), k1 1.2 and b 0.75, each word of a query counted once."""

    def __init__(self) -> None:
        self._counter = CountVectorizer(stop_words="english", dtype=np.float32)

    def fit_transform(self, texts: Iterable[str]) -> csr_array:
        """Weights [texts, words]."""
        counts = csr_array(self._counter.fit_transform(texts))
        rows, words = counts.shape
        lengths = counts.sum(axis=1)
        penalty = _K1 * (1 - _B + _B * lengths / lengths.mean())
        holding = np.bincount(counts.indices, minlength=words)
        rarity = np.log1p((rows - holding + 0.5) / (holding + 0.5))
        of_row = np.repeat(penalty, np.diff(counts.indptr))
        counts.data *= rarity[counts.indices] * (_K1 + 1) / (counts.data + of_row)
        return counts

    def transform(self, texts: Iterable[str]) -> csr_array:
        """Which words each query has, [texts, words]."""
        return csr_array(self._counter.transform(texts)).sign()


class Corpus:
    """The paragraphs, each with its page's title."""

    def __init__(self, records: Sequence[dict[str, Any]], weighting: Weighting) -> None:
        self.passages = [Passage(record["text"], record["title"]) for record in records]
        self.by_title: dict[str, list[Passage]] = {}
        for passage in self.passages:
            self.by_title.setdefault(passage.title, []).append(passage)
        self._weighting = weighting
        self._matrix = weighting.fit_transform(
            f"{passage.title} {passage.text}" for passage in self.passages
        )

    def strangers(self, rng: random.Random, titles: Container[str]) -> list[Passage]:
        """One passage drawn by chance, unless it happens to be of these pages."""
        return [passage for passage in rng.sample(self.passages, 1) if passage.title not in titles]

    def search(self, questions: Sequence[str], limit: int) -> Iterator[list[Passage]]:
        """The passages nearest to each question, best first."""
        for row in self._weighting.transform(questions):
            scores = (self._matrix @ row.T).toarray().ravel()
            nearest = np.argsort(-scores, kind="stable")[:limit]
            yield [self.passages[i] for i in nearest]
