"""A wiki's request budget as metrics."""

from typing import TYPE_CHECKING

from deployments.backends.wikipedia.circuit_breaker import Circuit
from deployments.observability.meter import Meter
from deployments.observability.metrics import search

if TYPE_CHECKING:
    from deployments.backends.wikipedia.budget import Outcome, Refusal
    from deployments.backends.wikipedia.pool_observer import CacheUse, PoolState


class SearchCounts:
    """Counts what a budget does; keeps the backends' Protocol `PoolObserver`."""

    def __init__(self, meter: Meter, host: str) -> None:
        """Records by `meter`, for the wiki at `host`."""
        self._meter = meter
        self._host = host

    def used_cache(self, use: "CacheUse", times: int = 1) -> None:
        """Count queries by what the shared answers gave."""
        self._meter.count(search.CACHE, times, host=self._host, use=use)

    def waited(self, seconds: float) -> None:
        """Observe a request's wait for the budget."""
        self._meter.observe(search.WAIT_SECONDS, seconds, host=self._host)

    def refused(self, reason: "Refusal") -> None:
        """Count a query that was refused."""
        self._meter.count(search.REFUSED, host=self._host, reason=reason)

    def ended(self, outcome: "Outcome") -> None:
        """Count a request's end."""
        self._meter.count(search.REQUESTS, host=self._host, outcome=outcome)

    def retried(self, *, allowed: bool) -> None:
        """Count a retry that was asked for."""
        self._meter.count(search.RETRIES, host=self._host, allowed="yes" if allowed else "no")

    def changed(self, state: "PoolState") -> None:
        """Ignored: what is left of a replica's own small share is not what is left of the budget."""


class SearchMetrics(SearchCounts):
    """Counts what the shared budget does, and shows how it stands."""

    def changed(self, state: "PoolState") -> None:
        """Show the budget as it is now."""
        self._meter.show(search.BUDGET_LEFT, state.tokens, host=self._host)
        self._meter.show(search.IN_FLIGHT, state.in_flight, host=self._host)
        self._meter.show(search.WAITING, state.waiting, host=self._host)
        for circuit in Circuit:
            is_in = 1.0 if circuit is state.circuit else 0.0
            self._meter.show(search.CIRCUIT, is_in, host=self._host, state=circuit)
