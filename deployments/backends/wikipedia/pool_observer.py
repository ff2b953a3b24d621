"""What can be seen of a wiki's shared budget: a Protocol for whoever counts it."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from deployments.backends.wikipedia.budget import Outcome, Refusal
from deployments.backends.wikipedia.circuit_breaker import Circuit


class CacheUse(StrEnum):
    """What the shared answers gave for a query."""

    HIT = "hit"
    NEGATIVE = "negative"
    STALE = "stale"
    MISS = "miss"
    JOINED = "joined"
    """Another caller was fetching it: no request of its own."""


@dataclass(frozen=True, slots=True)
class PoolState:
    """The budget at one moment."""

    circuit: Circuit
    tokens: float
    in_flight: int
    waiting: int


class PoolObserver(Protocol):
    """Counts what a shared budget does; every label comes from a closed set."""

    def used_cache(self, use: CacheUse, times: int = 1) -> None: ...

    def waited(self, seconds: float) -> None: ...

    def refused(self, reason: Refusal) -> None: ...

    def ended(self, outcome: Outcome) -> None: ...

    def retried(self, *, allowed: bool) -> None: ...

    def changed(self, state: PoolState) -> None: ...


class NoObserver:
    """Counts nothing."""

    def used_cache(self, use: CacheUse, times: int = 1) -> None:
        """Ignored."""

    def waited(self, seconds: float) -> None:
        """Ignored."""

    def refused(self, reason: Refusal) -> None:
        """Ignored."""

    def ended(self, outcome: Outcome) -> None:
        """Ignored."""

    def retried(self, *, allowed: bool) -> None:
        """Ignored."""

    def changed(self, state: PoolState) -> None:
        """Ignored."""
