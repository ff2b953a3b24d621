"""Whether one more request may be sent to a wiki now, and if not, when: decisions without waiting."""

import math

from crag_core.context import Lane
from deployments.backends.wikipedia.budget import Outcome, Refusal, Refused
from deployments.backends.wikipedia.circuit_breaker import Circuit, CircuitBreaker
from deployments.settings import SearchBudgetSettings
from deployments.token_bucket import TokenBucket

_RETRY_RESERVE = 3.0
"""Retries that are there at the start, and kept at most."""

_SMOOTHING = 0.2
_PERSON = Lane.INTERACTIVE


class HostGate:
    """The state of one wiki's budget, on its caller's clock, in seconds.

    Pacing comes before concurrency: a request takes a token of the bucket, then a slot in flight. A
    pause that the wiki asked for holds for every request.
    """

    def __init__(self, host: str, settings: SearchBudgetSettings, now_s: float) -> None:
        """A gate whose bucket is empty, whose circuit is closed, and with nothing in flight."""
        self._host = host
        self._settings = settings
        self._bucket = TokenBucket(settings.rate_per_s, settings.burst, now_s)
        self._breaker = CircuitBreaker(settings)
        self._paused_until_s = -math.inf
        self._lags_until_s = -math.inf
        self._unasked_pause_s = settings.pause_s
        self._retries = _RETRY_RESERVE
        self._slots: dict[int, tuple[float, float]] = {}
        self._mean_s = 0.0

    def holds(self, flight: int) -> bool:
        """Whether a request of this flight is on its way."""
        return flight in self._slots

    @property
    def in_flight(self) -> int:
        """Requests in flight."""
        return len(self._slots)

    def circuit(self, now_s: float) -> Circuit:
        """The circuit breaker's state."""
        return self._breaker.state(now_s)

    def tokens(self, now_s: float) -> float:
        """Requests that could be sent at once."""
        return 0.0 if self._paused_for_s(now_s, _PERSON) else self._bucket.tokens(now_s)

    def opens_in_s(self, now_s: float, lane: Lane = _PERSON) -> float:
        """Seconds until a request may be sent; infinite while that takes a slot to become free."""
        is_closed = self.circuit(now_s) is Circuit.CLOSED
        if len(self._slots) >= (self._settings.max_in_flight if is_closed else 1):
            return math.inf
        return max(
            self._paused_for_s(now_s, lane),
            self._breaker.half_opens_in_s(now_s),
            self._bucket.ready_in_s(now_s),
        )

    def refusal(
        self, now_s: float, ahead: int, timeout_s: float, lane: Lane = _PERSON
    ) -> Refused | None:
        """Why a request behind `ahead` others will not be sent in time, if that is known now."""
        pause_s = self._paused_for_s(now_s, lane)
        if pause_s >= timeout_s:
            return Refused(
                Refusal.THROTTLED,
                f"{self._host} has asked for a pause, which lasts another {pause_s:.3g} s",
            )
        circuit = self.circuit(now_s)
        if circuit is Circuit.OPEN or (circuit is Circuit.HALF_OPEN and self._slots):
            return Refused(
                Refusal.CIRCUIT_OPEN,
                f"{self._host} has failed too often: it is asked again in "
                f"{self._breaker.half_opens_in_s(now_s):.3g} s",
            )
        # a caller with all its time left is tried even if the wiki was slow: it may have recovered
        answer_s = min(self._mean_s, timeout_s / 2)
        wait_s = max(pause_s, self._bucket.ready_in_s(now_s, ahead + 1), self._slot_in_s(ahead))
        if wait_s + answer_s >= timeout_s:
            return Refused(
                Refusal.BUDGET_SPENT,
                f"the request budget for {self._host} is spent: an answer could be had in "
                f"{wait_s + answer_s:.3g} s at the earliest",
            )
        return None

    def start(self, now_s: float, flight: int) -> None:
        """Send a request: it takes a token and a slot."""
        self._bucket.take(now_s)
        self._slots[flight] = (now_s, now_s + self._settings.lease_s)

    def end(self, now_s: float, flight: int, outcome: Outcome, retry_after_s: float) -> None:
        """A request has ended: its slot is free, and a pause that the wiki wants is everybody's."""
        started_s, _ = self._slots.pop(flight)
        if outcome is Outcome.OK:
            self._mean_s += _SMOOTHING * (now_s - started_s - self._mean_s)
        self._pause(now_s, outcome, retry_after_s)
        if outcome in {Outcome.UNAVAILABLE, Outcome.BLOCKED}:
            self._breaker.record(now_s, failed=True)
        elif outcome is not Outcome.ABANDONED:  # also a refusal shows that the wiki is up
            self._breaker.record(now_s, failed=False)
        self._retries = min(_RETRY_RESERVE, self._retries + self._settings.retry_share)

    def take_retry(self, now_s: float) -> bool:
        """Whether one more retry is within the retry budget; if so it is taken."""
        if self._retries < 1 or self.circuit(now_s) is not Circuit.CLOSED:
            return False
        self._retries -= 1
        return True

    def free_expired(self, now_s: float) -> list[int]:
        """Free the slots whose holders have not reported in time, and name their flights."""
        expired = [flight for flight, (_, until_s) in self._slots.items() if until_s <= now_s]
        for flight in expired:
            del self._slots[flight]
        return expired

    def next_expiry_in_s(self, now_s: float) -> float:
        """Seconds until the first slot is freed by itself; infinite without a request in flight."""
        return min((until_s for _, until_s in self._slots.values()), default=math.inf) - now_s

    def adopt(self, settings: SearchBudgetSettings, now_s: float) -> None:
        """Go on under other settings: what was spent, asked for and seen stays as it is."""
        self._bucket.take_over(settings.rate_per_s, settings.burst, now_s)
        self._settings = settings

    def _pause(self, now_s: float, outcome: Outcome, retry_after_s: float) -> None:
        longest_s = self._settings.max_pause_s
        if outcome is Outcome.OK:
            self._unasked_pause_s = self._settings.pause_s
        elif outcome is Outcome.LAGGING:
            pause_s = min(retry_after_s or self._settings.pause_s, longest_s)
            self._lags_until_s = max(self._lags_until_s, now_s + pause_s)
        elif retry_after_s:
            until_s = now_s + min(retry_after_s, longest_s)
            self._paused_until_s = max(self._paused_until_s, until_s)
        elif outcome is Outcome.THROTTLED and not self._paused_for_s(now_s, _PERSON):
            self._paused_until_s = now_s + self._unasked_pause_s
            self._unasked_pause_s = min(2 * self._unasked_pause_s, longest_s)

    def _paused_for_s(self, now_s: float, lane: Lane) -> float:
        lags_for_s = 0.0 if lane is _PERSON else self._lags_until_s - now_s
        return max(0.0, self._paused_until_s - now_s, lags_for_s)

    def _slot_in_s(self, ahead: int) -> float:
        limit = self._settings.max_in_flight
        return max(0, len(self._slots) + ahead + 1 - limit) * self._mean_s / limit
