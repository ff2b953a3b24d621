"""How long a stage lately took: what must be kept free for it, and when asking it is hopeless."""

import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from statistics import median_low

_REMEMBERED = 32
_FORGOTTEN_AFTER_S = 30.0


@dataclass(slots=True)
class Pace:
    """The seconds that one stage lately took, on one process's clock; nothing is known at first.

    What is 30 s old is forgotten, so that a stage that was slow once is not refused work for ever. The
    usual time is a median: one client that reads its answer slowly must not hurry all others.

    >>> pace = Pace(clock=iter([0.0, 0.0, 1.0, 1.0, 1.0, 40.0]).__next__)
    >>> for seconds in (2.0, 90.0, 1.0):
    ...     pace.observe(seconds)
    >>> pace.usual_s(), pace.least_s()
    (2.0, 1.0)
    >>> pace.usual_s()
    0.0
    """

    clock: Callable[[], float] = time.monotonic
    _latest: deque[float] = field(default_factory=lambda: deque(maxlen=_REMEMBERED))
    _observed_s: float = 0.0

    def observe(self, seconds: float) -> None:
        """The stage has answered after so many seconds."""
        now_s = self.clock()
        if not self._is_known(now_s):
            self._latest.clear()
        self._latest.append(seconds)
        self._observed_s = now_s

    def usual_s(self) -> float:
        """What the stage usually takes; 0 while nothing is known."""
        return median_low(self._latest) if self._is_known(self.clock()) else 0.0

    def least_s(self) -> float:
        """The least that the stage lately took; 0 while nothing is known."""
        return min(self._latest) if self._is_known(self.clock()) else 0.0

    def _is_known(self, now_s: float) -> bool:
        return bool(self._latest) and now_s - self._observed_s < _FORGOTTEN_AFTER_S
