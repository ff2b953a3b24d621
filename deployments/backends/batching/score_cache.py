"""The score cache: scores of pairs that were scored before, bounded, least recently used out first."""

from collections import OrderedDict
from collections.abc import Hashable
from dataclasses import dataclass, field

from crag_core.types import Score


@dataclass(slots=True)
class ScoreCache:
    """At most `capacity` scores; a capacity of 0 keeps none.

    >>> cache = ScoreCache(capacity=1)
    >>> cache.put("a", 0.5)
    >>> cache.put("b", 0.7)
    >>> cache.get("a"), cache.get("b")
    (None, 0.7)
    """

    capacity: int
    _scores: OrderedDict[Hashable, Score] = field(default_factory=OrderedDict)

    def get(self, key: Hashable) -> Score | None:
        """The score of a pair seen before, which counts as a use of it."""
        score = self._scores.get(key)
        if score is not None:
            self._scores.move_to_end(key)
        return score

    def put(self, key: Hashable, score: Score) -> None:
        """Keep a score, at the price of the least recently used one."""
        self._scores[key] = score
        self._scores.move_to_end(key)
        if len(self._scores) > self.capacity:
            self._scores.popitem(last=False)

    def __len__(self) -> int:
        return len(self._scores)
