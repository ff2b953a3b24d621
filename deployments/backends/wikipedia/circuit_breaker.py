"""The circuit breaker: a wiki that is down is left alone for a while, then asked once."""

from collections import deque
from enum import StrEnum

from deployments.settings import SearchBudgetSettings


class Circuit(StrEnum):
    """Whether requests pass: all, none, or one as a probe."""

    CLOSED = "closed"
    OPEN = "open"
    HALF_OPEN = "half_open"


class CircuitBreaker:
    """Opens on failures in a row, or on their share in the last requests; on its caller's clock.

    It stays open longer with each probe that fails, up to `max_open_s`.
    """

    def __init__(self, settings: SearchBudgetSettings) -> None:
        """A closed circuit."""
        self._settings = settings
        self._recent: deque[bool] = deque(maxlen=settings.failure_window)
        self._in_a_row = 0
        self._open_s = 0.0
        self._reopens_at_s: float | None = None

    def state(self, now_s: float) -> Circuit:
        """Closed, open, or half open once it has been open long enough."""
        if self._reopens_at_s is None:
            return Circuit.CLOSED
        return Circuit.OPEN if now_s < self._reopens_at_s else Circuit.HALF_OPEN

    def half_opens_in_s(self, now_s: float) -> float:
        """Seconds until a probe may pass."""
        return max(0.0, (self._reopens_at_s or now_s) - now_s)

    def record(self, now_s: float, *, failed: bool) -> None:
        """Take note of a request's end; one that ends while the circuit is open changes nothing."""
        match self.state(now_s):
            case Circuit.OPEN:
                return
            case Circuit.HALF_OPEN:
                self._open(now_s) if failed else self._close()
            case Circuit.CLOSED:
                self._recent.append(failed)
                self._in_a_row = self._in_a_row + 1 if failed else 0
                if failed and self._is_broken():
                    self._open(now_s)

    def _is_broken(self) -> bool:
        settings = self._settings
        is_full = len(self._recent) == settings.failure_window
        return self._in_a_row >= settings.failures_in_a_row or (
            is_full and sum(self._recent) >= settings.failure_share * settings.failure_window
        )

    def _open(self, now_s: float) -> None:
        doubled = 2 * self._open_s if self._open_s else self._settings.open_s
        self._open_s = min(doubled, self._settings.max_open_s)
        self._reopens_at_s = now_s + self._open_s

    def _close(self) -> None:
        self._recent.clear()
        self._in_a_row = 0
        self._open_s = 0.0
        self._reopens_at_s = None
