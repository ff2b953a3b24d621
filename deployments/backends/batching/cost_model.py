"""The cost model: how long the device will take for a batch, learned from the batches it has run."""

import math
from typing import NamedTuple, Self

_WARM_OBSERVATIONS = 8
_FORGETTING = 0.99
"""What a past batch weighs after each new one: about 100 batches are remembered."""
_SURPRISE = 4.0
"""A batch this many times slower or faster than predicted is a stall, and not learned from."""
_SURPRISES_OF_A_TREND = 8
"""So many surprises in a row are no stall: the device has changed, and learning starts again."""
_SWEEPS = 16


class Load(NamedTuple):
    """The size of a batch: its tokens, and the sum over its pairs of tokens squared (attention)."""

    tokens: int = 0
    squares: int = 0

    def with_pair(self, tokens: int) -> Self:
        """This load and one more pair."""
        return type(self)(self.tokens + tokens, self.squares + tokens * tokens)

    def without_pair(self, tokens: int) -> Self:
        """This load without one of its pairs."""
        return type(self)(self.tokens - tokens, self.squares - tokens * tokens)

    def plus(self, other: "Load") -> Self:
        """Both loads together."""
        return type(self)(self.tokens + other.tokens, self.squares + other.squares)

    def times(self, share: float) -> Self:
        """A multiple of this load."""
        return type(self)(round(self.tokens * share), round(self.squares * share))


class CostModel:
    """`seconds = fixed + per_token · tokens + per_square · squares`, no coefficient below 0.

    Fitted online: least squares of the relative error, past batches forgotten exponentially. Only
    sums are kept, and each new batch improves the last solution by coordinate descent; nothing is
    inverted, so batches that are all alike do no harm.
    """

    def __init__(self) -> None:
        self._surprises = 0
        self._forget()

    @property
    def is_warm(self) -> bool:
        """Whether enough batches were seen to believe a prediction."""
        return self.observations >= _WARM_OBSERVATIONS

    def seconds(self, load: Load, batches: int = 1) -> float:
        """Predicted device time of a load that runs in so many batches; 0 before the first one."""
        fixed, per_token, per_square = self._coefficients
        _, tokens, squares = _features(load)
        return fixed * batches + per_token * tokens + per_square * squares

    def observe(self, load: Load, seconds: float) -> None:
        """Learn from one batch that succeeded; a time that is no positive number is ignored."""
        if not (math.isfinite(seconds) and seconds > 0):
            return
        predicted = self.seconds(load)
        if self.is_warm and not predicted / _SURPRISE < seconds < predicted * _SURPRISE:
            self._surprises += 1
            if self._surprises < _SURPRISES_OF_A_TREND:
                return
            self._forget()
        self._surprises = 0
        self.observations += 1
        # Rows are scaled so that the target is 1: what is fitted is the relative error.
        row = [feature / seconds for feature in _features(load)]
        for i in range(3):
            self._targets[i] = _FORGETTING * self._targets[i] + row[i]
            for j in range(3):
                self._products[i][j] = _FORGETTING * self._products[i][j] + row[i] * row[j]
        self._descend()

    def _forget(self) -> None:
        self.observations = 0
        self._coefficients = [0.0, 0.0, 0.0]
        self._products = [[0.0] * 3 for _ in range(3)]
        self._targets = [0.0, 0.0, 0.0]

    def _descend(self) -> None:
        solution = self._coefficients
        for _ in range(_SWEEPS):
            for i, products in enumerate(self._products):
                if products[i] > 0:
                    others = sum(products[j] * solution[j] for j in range(3) if j != i)
                    solution[i] = max(0.0, (self._targets[i] - others) / products[i])


def _features(load: Load) -> tuple[float, float, float]:
    """Scaled so that a full batch has features of similar size."""
    return 1.0, load.tokens / 1e3, load.squares / 1e6
