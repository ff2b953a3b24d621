"""Whether a call whose replica was lost is made again."""

_MOST_ATTEMPTS = 3
"""A request that kills replicas must not go on to kill them all."""
_BURST = 256.0
_SHARE = 0.1
_FIRST_PAUSE_S = 0.05


class RetryBudget:
    """Retries of one process: a tenth of its calls in the long run, and so many at once as one replica
    holds.

    Where everything fails, retries must not multiply the load that may be the reason.
    """

    def __init__(self) -> None:
        """Has a whole replica's requests to spare."""
        self._left = _BURST

    def called(self) -> None:
        """A call is made for the first time."""
        self._left = min(_BURST, self._left + _SHARE)

    def pause_s(self, attempts: int) -> float | None:
        """Seconds before the next attempt after so many; None when there is to be none."""
        if attempts >= _MOST_ATTEMPTS or self._left < 1:
            return None
        self._left -= 1
        return float(_FIRST_PAUSE_S * 4 ** (attempts - 1))
