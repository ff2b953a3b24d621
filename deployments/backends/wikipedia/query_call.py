"""One query's way to its answer, through as many attempts as it is granted."""

import asyncio
import logging
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import stamina

from crag_core.context import Lane
from crag_core.errors import SearchFailed
from deployments.backends.wikipedia.budget import (
    Acquire,
    Entry,
    Known,
    KnownParts,
    Landed,
    Lease,
    Outcome,
    Refusal,
    Refused,
    Reply,
    Report,
    SearchBudget,
    Verdict,
)
from deployments.backends.wikipedia.mediawiki_api import QueryAnswer
from deployments.backends.wikipedia.retry import retry_in_s
from deployments.backends.wikipedia.session import AttemptFailed, Connection
from deployments.backends.wikipedia.single_flight import Deadline
from deployments.settings import MediaWikiSettings

_logger = logging.getLogger(__name__)

_STALLED_AFTER_S = 2.0
"""A wiki silent for so long has failed; one cut off earlier, by a caller in a hurry, has not."""


class _Again(Exception):
    """The request failed, and another attempt is granted after `wait_s` seconds."""

    def __init__(self, failure: AttemptFailed, wait_s: float) -> None:
        super().__init__(failure.message)
        self.wait_s = wait_s


@dataclass(frozen=True, slots=True)
class Shape:
    """As what an answer is remembered: `entries` makes it; `key` or `parts` name it, as in Acquire."""

    entries: Callable[[bytes, QueryAnswer], Sequence[Entry]]
    key: bytes | None = None
    parts: Sequence[bytes] = ()


@dataclass(frozen=True, slots=True)
class Fetched:
    """An answer that the wiki has just sent, as JSON and as it was read."""

    body: bytes
    answer: QueryAnswer


Found = Fetched | Known | KnownParts
"""What a query led to."""


@dataclass(eq=False, slots=True)
class QueryCall:
    """A query on its way; `deadline` moves when callers with more time join.

    What has to be reported after the last caller has left becomes a task among `loose_ends`.
    """

    settings: MediaWikiSettings
    connection: Connection
    budget: SearchBudget
    loose_ends: set["asyncio.Task[Verdict]"]
    parameters: Mapping[str, str]
    shape: Shape
    lane: Lane
    deadline: Deadline
    limit_s: float
    _flight: int | None = field(default=None, init=False)
    _sent_at_s: float | None = field(default=None, init=False)
    _attempt: int = field(default=0, init=False)

    async def answer(self) -> Found:
        """The answer, or what was known of its parts; raises SearchFailed."""

        def wait_s(error: Exception) -> bool | float:
            return error.wait_s if isinstance(error, _Again) else False

        async def attempt() -> Found:  # without arguments, for stamina logs them
            return await self._try()

        retrying = stamina.AsyncRetryingCaller(attempts=self.settings.max_attempts, timeout=None)
        try:
            return await retrying(wait_s, attempt)
        except _Again as error:  # granted, and not taken: somebody has switched stamina off
            raise SearchFailed(str(error)) from error
        except asyncio.CancelledError:  # nobody waits any more, but the budget has to know
            if self._flight is not None:
                self._report_aside(Report(self._flight, self._unheard()))
            raise

    async def _try(self) -> Found:
        self._attempt += 1
        match await self._acquire():
            case (Known() | KnownParts()) as known:
                return known
            case Refused() as refused:
                raise refused.error()
            case Lease(flight):
                self._flight = flight
        try:
            body, answer = await self._sent()
        except AttemptFailed as failure:
            return await self._after(failure, flight)
        entries = self.shape.entries(body, answer)
        await self.budget.land(Landed(flight, entries, self.deadline.take_joined()))
        return Fetched(body, answer)

    async def _acquire(self) -> Reply:
        while True:
            at_s, remaining_s = self.deadline.at_s, self.deadline.remaining_s()
            if remaining_s <= 0:
                return too_late(self.settings.host, self.limit_s)
            ask = Acquire(self.shape.key, remaining_s, self.lane, self._flight, parts=self.shape.parts)
            reply = await self.budget.acquire(ask)
            # a caller with more time may have joined while this one's ran out
            if not isinstance(reply, Refused) or self.deadline.at_s <= at_s:
                return reply

    async def _sent(self) -> tuple[bytes, QueryAnswer]:
        self._sent_at_s = asyncio.get_running_loop().time()
        try:
            sent = await self.deadline.bound(self.connection.send(self._sent_parameters()))
        except TimeoutError as error:
            message = too_late(self.settings.host, self.limit_s).message
            raise AttemptFailed(self._unheard(), message) from error
        self._sent_at_s = None
        return sent

    async def _after(self, failure: AttemptFailed, flight: int) -> Known:
        """What a failed request leads to: an old answer, another attempt (_Again), or the error."""
        self._sent_at_s = None
        refused = Refused(_reason(failure, self.deadline), failure.message)
        wait_s = retry_in_s(self._attempt, failure.retry_after_s, random.uniform)
        is_worth_it = (
            failure.outcome.is_transient
            and self._attempt < self.settings.max_attempts
            and wait_s < self.deadline.remaining_s()
        )
        verdict = await self.budget.report(
            Report(
                flight,
                failure.outcome,
                refused,
                failure.retry_after_s,
                retry_in_s=wait_s if is_worth_it else None,
                joined=self.deadline.take_joined(),
            )
        )
        if verdict.may_retry:
            raise _Again(failure, wait_s)
        _logger.warning("%s", failure.message)
        if verdict.stale is not None:
            return Known(verdict.stale, is_stale=True)
        raise refused.error() from failure

    def _sent_parameters(self) -> Mapping[str, str]:
        if self.lane is Lane.INTERACTIVE:
            return self.parameters
        # nobody waits: the wiki's own readers go first
        return {**self.parameters, "maxlag": str(self.settings.maxlag_s)}

    def _unheard(self) -> Outcome:
        """The outcome of a request that is given up: the wiki's failure only if it was given time."""
        now_s = asyncio.get_running_loop().time()
        waited_s = now_s - (now_s if self._sent_at_s is None else self._sent_at_s)
        return Outcome.UNAVAILABLE if waited_s >= _STALLED_AFTER_S else Outcome.ABANDONED

    def _report_aside(self, report: Report) -> None:
        task = asyncio.ensure_future(self.budget.report(report))
        self.loose_ends.add(task)
        task.add_done_callback(self.loose_ends.discard)


def _reason(failure: AttemptFailed, deadline: Deadline) -> Refusal:
    if failure.outcome in {Outcome.THROTTLED, Outcome.LAGGING}:
        return Refusal.THROTTLED
    return Refusal.TIMED_OUT if deadline.remaining_s() <= 0 else Refusal.FAILED


def too_late(host: str, limit_s: float) -> Refused:
    """The refusal for want of time."""
    return Refused(Refusal.TIMED_OUT, f"{host} did not answer within {limit_s:.3g} s")
