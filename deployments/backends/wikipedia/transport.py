"""Queries to a wiki as if it were reliable: shared, paced, retried, remembered."""

import asyncio
import logging
import random
from collections.abc import Mapping
from typing import Protocol

import stamina

from crag_core.context import Lane
from crag_core.errors import SearchFailed
from deployments.backends.wikipedia.budget import (
    Acquire,
    Known,
    Lease,
    Outcome,
    Refusal,
    Refused,
    Report,
    SearchBudget,
    Verdict,
)
from deployments.backends.wikipedia.mediawiki_api import QueryAnswer, names_a_page
from deployments.backends.wikipedia.query_key import query_key
from deployments.backends.wikipedia.retry import retry_in_s
from deployments.backends.wikipedia.session import AttemptFailed, Connection
from deployments.backends.wikipedia.single_flight import Deadline, SingleFlight
from deployments.settings import MediaWikiSettings

_logger = logging.getLogger(__name__)

_STALLED_AFTER_S = 2.0
"""A wiki silent for so long has failed; one cut off earlier, by a caller in a hurry, has not."""


class QueryTransport(Protocol):
    """Takes the Action API's parameters to a wiki and brings the answer; raises SearchFailed."""

    async def query(
        self, parameters: Mapping[str, str], *, timeout_s: float, lane: Lane = Lane.INTERACTIVE
    ) -> QueryAnswer: ...


class _Again(Exception):
    """The request failed, and another attempt is granted after `wait_s` seconds."""

    def __init__(self, failure: AttemptFailed, wait_s: float) -> None:
        super().__init__(failure.message)
        self.wait_s = wait_s


class PooledTransport:
    """A QueryTransport over one connection of this process and a budget that many processes share."""

    def __init__(
        self, settings: MediaWikiSettings, connection: Connection, budget: SearchBudget
    ) -> None:
        """Sends nothing yet."""
        self._settings = settings
        self._connection = connection
        self._budget = budget
        self._flights: SingleFlight[tuple[bytes, Lane], bytes] = SingleFlight()
        self._loose_ends: set[asyncio.Task[Verdict]] = set()

    async def query(
        self, parameters: Mapping[str, str], *, timeout_s: float, lane: Lane = Lane.INTERACTIVE
    ) -> QueryAnswer:
        """The wiki's answer within `timeout_s`, or within the settings' limit for one look-up.

        Equal queries at the same time become one request. Raises SearchFailed, or the child of it that
        says whether budget, wiki or time gave out.
        """
        body = await self.fetch(parameters, timeout_s=timeout_s, lane=lane)
        return QueryAnswer.model_validate_json(body)

    async def fetch(
        self,
        parameters: Mapping[str, str],
        *,
        timeout_s: float,
        lane: Lane = Lane.INTERACTIVE,
        is_shared: bool = True,
    ) -> bytes:
        """As `query`, but the answer's JSON; what is not shared is not remembered either."""
        limit_s = max(0.0, min(timeout_s, self._settings.timeout_s))
        at_s = asyncio.get_running_loop().time() + limit_s
        key = query_key(self._settings.api_url, parameters)

        async def work(deadline: Deadline) -> bytes:
            call = _Call(self, parameters, key if is_shared else None, lane, deadline, limit_s)
            return await call.answer()

        try:
            return await self._flights.join((key, lane), at_s, work)
        except TimeoutError as error:
            raise self.too_late(limit_s).error() from error

    def too_late(self, limit_s: float) -> Refused:
        """The refusal for want of time."""
        message = f"{self._settings.host} did not answer within {limit_s:.3g} s"
        return Refused(Refusal.TIMED_OUT, message)

    async def close(self) -> None:
        """Close the connections, once what had to be reported is reported."""
        if self._loose_ends:
            await asyncio.wait(self._loose_ends, timeout=1.0)
        await self._connection.close()


class _Call:
    """One query's way to its answer, through as many attempts as it is granted."""

    def __init__(
        self,
        transport: PooledTransport,
        parameters: Mapping[str, str],
        key: bytes | None,
        lane: Lane,
        deadline: Deadline,
        limit_s: float,
    ) -> None:
        self._transport = transport
        self._settings = transport._settings
        self._budget = transport._budget
        self._parameters = parameters
        self._key = key
        self._lane = lane
        self._deadline = deadline
        self._limit_s = limit_s
        self._flight: int | None = None
        self._sent_at_s: float | None = None
        self._attempt = 0
        if lane is not Lane.INTERACTIVE:  # nobody waits: the wiki's own readers go first
            self._parameters = {**parameters, "maxlag": str(self._settings.maxlag_s)}

    async def answer(self) -> bytes:
        """The answer's JSON; raises SearchFailed."""

        def wait_s(error: Exception) -> bool | float:
            return error.wait_s if isinstance(error, _Again) else False

        async def attempt() -> bytes:  # without arguments, for stamina logs them
            return await self._try()

        retrying = stamina.AsyncRetryingCaller(attempts=self._settings.max_attempts, timeout=None)
        try:
            return await retrying(wait_s, attempt)
        except _Again as error:  # granted, and not taken: somebody has switched stamina off
            raise SearchFailed(str(error)) from error
        except asyncio.CancelledError:  # nobody waits any more, but the budget has to know
            if self._flight is not None:
                self._report_aside(Report(self._flight, self._unheard()))
            raise

    async def _try(self) -> bytes:
        self._attempt += 1
        match await self._acquire():
            case Known(body):
                return body
            case Refused() as refused:
                raise refused.error()
            case Lease(flight):
                self._flight = flight
        try:
            body, answer = await self._sent()
        except AttemptFailed as failure:
            return await self._after(failure, flight)
        is_negative = not names_a_page(answer)
        joined = self._deadline.joined
        report = Report(flight, Outcome.OK, body=body, is_negative=is_negative, joined=joined)
        await self._budget.report(report)
        return body

    async def _acquire(self) -> Lease | Known | Refused:
        while True:
            at_s, remaining_s = self._deadline.at_s, self._deadline.remaining_s()
            if remaining_s <= 0:
                return self._transport.too_late(self._limit_s)
            ask = Acquire(self._key, remaining_s, self._lane, self._flight)
            reply = await self._budget.acquire(ask)
            # a caller with more time may have joined while this one's ran out
            if not isinstance(reply, Refused) or self._deadline.at_s <= at_s:
                return reply

    async def _sent(self) -> tuple[bytes, QueryAnswer]:
        self._sent_at_s = asyncio.get_running_loop().time()
        try:
            sent = await self._deadline.bound(self._transport._connection.send(self._parameters))
        except TimeoutError as error:
            message = self._transport.too_late(self._limit_s).message
            raise AttemptFailed(self._unheard(), message) from error
        self._sent_at_s = None
        return sent

    async def _after(self, failure: AttemptFailed, flight: int) -> bytes:
        """What a failed request leads to: an old answer, another attempt (_Again), or the error."""
        self._sent_at_s = None
        refused = Refused(_reason(failure, self._deadline), failure.message)
        wait_s = retry_in_s(self._attempt, failure.retry_after_s, random.uniform)
        is_worth_it = (
            failure.outcome.is_transient
            and self._attempt < self._settings.max_attempts
            and wait_s < self._deadline.remaining_s()
        )
        verdict = await self._budget.report(
            Report(
                flight,
                failure.outcome,
                refused,
                failure.retry_after_s,
                retry_in_s=wait_s if is_worth_it else None,
                joined=0 if is_worth_it else self._deadline.joined,
            )
        )
        if verdict.may_retry:
            raise _Again(failure, wait_s)
        _logger.warning("%s", failure.message)
        if verdict.stale is not None:
            return verdict.stale
        raise refused.error() from failure

    def _unheard(self) -> Outcome:
        """The outcome of a request that is given up: the wiki's failure only if it was given time."""
        now_s = asyncio.get_running_loop().time()
        waited_s = now_s - (now_s if self._sent_at_s is None else self._sent_at_s)
        return Outcome.UNAVAILABLE if waited_s >= _STALLED_AFTER_S else Outcome.ABANDONED

    def _report_aside(self, report: Report) -> None:
        task = asyncio.ensure_future(self._budget.report(report))
        self._transport._loose_ends.add(task)
        task.add_done_callback(self._transport._loose_ends.discard)


def _reason(failure: AttemptFailed, deadline: Deadline) -> Refusal:
    if failure.outcome in {Outcome.THROTTLED, Outcome.LAGGING}:
        return Refusal.THROTTLED
    return Refusal.TIMED_OUT if deadline.remaining_s() <= 0 else Refusal.FAILED
