"""The ration of explanations: how much of the device they may take beside the making of answers."""

import math


class ExplainRation:
    """All of the device while no answer is made, else a share of its time.

    Lanes alone would not do: an answer's generation runs after its scores, on the same card or the same
    cores. Times are on the caller's monotonic clock.

    >>> ration = ExplainRation(share=0.25, answer_lasts_s=60.0)
    >>> ration.answering(now_s=100.0)
    >>> ration.explained(seconds=1.0, now_s=101.0)
    >>> ration.wait_s(now_s=102.0)
    2.0
    """

    def __init__(self, share: float, answer_lasts_s: float) -> None:
        self._rest = 1 / share - 1
        self._answer_lasts_s = answer_lasts_s
        self._answered_s = -math.inf
        self._rested_s = -math.inf

    def answering(self, now_s: float) -> None:
        """Pairs of an answer have come."""
        self._answered_s = now_s

    def explained(self, seconds: float, now_s: float) -> None:
        """The device has worked so long on explanations."""
        self._rested_s = now_s + seconds * self._rest

    def wait_s(self, now_s: float) -> float:
        """How long explanations must wait; 0 when they may go on."""
        return max(0.0, min(self._rested_s, self._answered_s + self._answer_lasts_s) - now_s)
