"""The budget of requests that all replicas share for one wiki: its Protocol, and what passes over it.

Every value is small and plain, for in a cluster it travels between processes.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from crag_core.context import Lane
from crag_core.errors import (
    SearchBudgetSpent,
    SearchCircuitOpen,
    SearchFailed,
    SearchThrottled,
    SearchTimedOut,
)


class Outcome(StrEnum):
    """How one request to the wiki ended."""

    OK = "ok"
    THROTTLED = "throttled"
    """The wiki asks to slow down: 429, ratelimited; it is up, so no circuit opens."""
    LAGGING = "lagging"
    """Its databases lag more than a job asked for by `maxlag`: jobs wait, people need not."""
    UNAVAILABLE = "unavailable"
    """The wiki or the way to it is broken: 5xx, a broken connection, an answer that is no answer."""
    BLOCKED = "blocked"
    """The wiki refuses us, whatever we ask: 403 and its like; trying again would make it worse."""
    REFUSED = "refused"
    """The wiki answered that this query is wrong; it would be wrong again."""
    ABANDONED = "abandoned"
    """Nobody waits any more; it says nothing about the wiki."""

    @property
    def is_transient(self) -> bool:
        """Whether another attempt may end otherwise."""
        return self in {Outcome.THROTTLED, Outcome.LAGGING, Outcome.UNAVAILABLE}


class Refusal(StrEnum):
    """Why a query has no answer."""

    BUDGET_SPENT = "budget_spent"
    THROTTLED = "throttled"
    CIRCUIT_OPEN = "circuit_open"
    TIMED_OUT = "timed_out"
    FAILED = "failed"


_ERRORS: Mapping[Refusal, type[SearchFailed]] = {
    Refusal.BUDGET_SPENT: SearchBudgetSpent,
    Refusal.THROTTLED: SearchThrottled,
    Refusal.CIRCUIT_OPEN: SearchCircuitOpen,
    Refusal.TIMED_OUT: SearchTimedOut,
    Refusal.FAILED: SearchFailed,
}


@dataclass(frozen=True, slots=True)
class Acquire:
    """Asks for the answer to a query, or for the right to fetch it.

    `key` names the query (`None`: not to be shared or cached); `timeout_s` is how long the caller will
    wait; `flight` is that of an earlier lease of the caller, when this is another attempt. `parts` name
    what the answer can be put together from: where some of it is known, that is the reply.
    """

    key: bytes | None
    timeout_s: float
    lane: Lane = Lane.INTERACTIVE
    flight: int | None = None
    parts: Sequence[bytes] = ()


@dataclass(frozen=True, slots=True)
class Lease:
    """The right to send one request now; it ends as it is landed or reported, or after `lease_s`."""

    flight: int


@dataclass(frozen=True, slots=True)
class Known:
    """An answer as the JSON that the wiki sent; a stale one stands in for a wiki that failed."""

    body: bytes
    is_stale: bool = False


@dataclass(frozen=True, slots=True)
class KnownParts:
    """What is known of the parts that were asked for: at least one of them, each by its key."""

    bodies: Mapping[bytes, bytes]


@dataclass(frozen=True, slots=True)
class Refused:
    """No answer and no lease, and why, in one sentence."""

    reason: Refusal
    message: str

    def error(self) -> SearchFailed:
        """The core's error for it."""
        return _ERRORS[self.reason](self.message)


Reply = Lease | Known | KnownParts | Refused
"""What becomes of an Acquire."""


@dataclass(frozen=True, slots=True)
class Entry:
    """An answer to remember."""

    key: bytes
    body: bytes
    is_negative: bool = False


@dataclass(frozen=True, slots=True)
class Landed:
    """The request of a lease brought an answer, to be remembered as these entries.

    `joined` counts the callers in the reporting process who waited for this one request.
    """

    flight: int
    entries: Sequence[Entry] = ()
    joined: int = 0


@dataclass(frozen=True, slots=True)
class Report:
    """How the request of a lease failed.

    `retry_in_s` asks for another attempt after so many seconds; `joined` counts the callers in the
    reporting process who waited for this one request.
    """

    flight: int
    outcome: Outcome
    refusal: Refused | None = None
    retry_after_s: float = 0.0
    retry_in_s: float | None = None
    joined: int = 0


@dataclass(frozen=True, slots=True)
class Verdict:
    """What follows from a failed request: another attempt, an older answer, or neither."""

    may_retry: bool = False
    stale: bytes | None = None


class BudgetLost(Exception):
    """The shared budget cannot be reached at the moment."""


class SearchBudget(Protocol):
    """One budget and one memory for all who query a wiki; raises BudgetLost when it is out of reach."""

    async def acquire(self, ask: Acquire) -> Reply: ...

    async def land(self, landed: Landed) -> None: ...

    async def report(self, report: Report) -> Verdict: ...

    async def recall_stale(self, keys: Sequence[bytes]) -> Mapping[bytes, bytes]: ...
