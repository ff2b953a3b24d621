"""How long a stage takes at which load, learned from what requests took."""

import math
from dataclasses import dataclass, field

_WEIGHT_OF_NEW = 0.1
_WARM_OBSERVATIONS = 8
_MOST_TIMES = 4.0
"""A request that took longer than so many times the others counts as that: one client that reads its
answer slowly must not make the stage look slow."""


@dataclass(slots=True)
class _Level:
    """What requests took on average while this much work was there; loads double from level to level."""

    seconds: float = 0.0
    observations: int = 0

    def observe(self, seconds: float) -> None:
        self.observations += 1
        if self.observations > _WARM_OBSERVATIONS:
            seconds = min(seconds, _MOST_TIMES * self.seconds)
        weight = max(_WEIGHT_OF_NEW, 1 / self.observations)
        self.seconds += weight * (seconds - self.seconds)


@dataclass(slots=True)
class LatencyCurve:
    """A request's seconds in one stage by the work that the cluster holds for it, its own included.

    Any stage that does not idle while work waits keeps to two rules, whatever its replicas, slots and
    batches: more work takes no less time, and twice the work at most twice the time. They tell what
    was never seen from what was, and correct what has changed since it was: after a replica has been
    added, the levels that requests still reach soon contradict those that are no longer reached.

    >>> curve = LatencyCurve()
    >>> for load, seconds in ((1, 1.0), (2, 1.0), (4, 1.0), (8, 2.0)):
    ...     for _ in range(8):
    ...         curve.observe(load, seconds)
    >>> curve.seconds(3), curve.seconds(8), curve.seconds(32)
    (1.0, 2.0, 8.0)
    """

    observations: int = 0
    _levels: dict[int, _Level] = field(default_factory=dict)

    @property
    def is_known(self) -> bool:
        """Whether enough requests were seen to believe a prediction."""
        return self.observations >= _WARM_OBSERVATIONS

    def observe(self, load: float, seconds: float) -> None:
        """A request took so long while so much was there."""
        self.observations += 1
        self._levels.setdefault(round(math.log2(max(load, 1e-6))), _Level()).observe(seconds)

    def seconds(self, load: float) -> float:
        """What a request is to be expected to take; 0 while nothing is known."""
        if not self._levels:
            return 0.0
        exact = math.log2(max(load, 1e-6))
        lowest = min(self._levels)
        if exact <= lowest:
            return self._levels[lowest].seconds
        below, at = self._levels[lowest].seconds, self._levels[lowest].seconds
        level, growth = lowest, 1.0
        while level < exact:
            level += 1
            seen = self._levels.get(level)
            below, at = at, min(max(seen.seconds if seen else at * growth, at), 2 * at)
            growth = at / below if below else 1.0
        return below + (at - below) * (2 ** (exact - level + 1) - 1)
