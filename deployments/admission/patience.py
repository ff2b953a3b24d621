"""How long clients wait that do not say so: those that left show it."""

import math
from dataclasses import dataclass

_FORGETTING = 0.99
"""What a past request weighs after each new one: about 100 are remembered."""
_MANY = 0.05
_DOWN = 0.2
_UP = 1.01
"""Patience is believed in by small steps, and out of it by smaller ones, so that no limit swings."""


@dataclass(slots=True)
class Patience:
    """The age at which clients leave, once so many leave that answers come too late for them.

    >>> patience = Patience()
    >>> for _ in range(19):
    ...     patience.answered()
    >>> patience.seconds
    inf
    >>> for _ in range(5):
    ...     patience.left(2.0)
    >>> patience.seconds
    2.0
    """

    seconds: float = math.inf
    """Seconds that an answer may take; infinite while hardly anybody leaves."""
    _ends: float = 0.0
    _leavers: float = 0.0

    def answered(self) -> None:
        """A client has waited for its answer."""
        self._forget()
        self.seconds *= _UP

    def left(self, age_s: float) -> None:
        """A client has left before it."""
        self._forget()
        self._leavers += 1
        if self._leavers > _MANY * self._ends and age_s < self.seconds:
            known = math.isfinite(self.seconds)
            self.seconds = self.seconds + _DOWN * (age_s - self.seconds) if known else age_s

    def _forget(self) -> None:
        self._ends = _FORGETTING * self._ends + 1
        self._leavers *= _FORGETTING
