"""The shared budget itself: one gate, one memory and one request per query, for all who ask.

It runs in one place, whether that is the only process or an actor that all replicas of a cluster ask.
"""

import asyncio
import math
import time
from collections.abc import Callable, Mapping, Sequence

from crag_core.context import Lane
from deployments.backends.wikipedia.answer_cache import AnswerCache
from deployments.backends.wikipedia.budget import (
    Acquire,
    Known,
    KnownParts,
    Landed,
    Lease,
    Outcome,
    Refusal,
    Refused,
    Reply,
    Report,
    Verdict,
)
from deployments.backends.wikipedia.flights import Flight, Flights
from deployments.backends.wikipedia.host_gate import HostGate
from deployments.backends.wikipedia.pool_observer import (
    CacheUse,
    NoObserver,
    PoolObserver,
    PoolState,
)
from deployments.backends.wikipedia.waiting_line import Waiter, WaitingLine
from deployments.settings import MediaWikiSettings

_SOON_S = 0.001
"""Timers that fire a little early must not spin."""


class SharedPool:
    """Keeps `SearchBudget` within one process."""

    def __init__(
        self,
        settings: MediaWikiSettings,
        observer: PoolObserver | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """An empty pool; `clock` gives seconds, at the pace of the loop that the pool is used in."""
        self._settings = settings
        self._clock = clock
        self._observer = observer or NoObserver()
        self._gate = HostGate(settings.host, settings.budget, clock())
        self._cache = AnswerCache(settings.cache, clock)
        self._line = WaitingLine()
        self._flights = Flights()
        self._timer: asyncio.TimerHandle | None = None

    def knows(self, flight: int) -> bool:
        """Whether a lease of this number was given here and has not ended."""
        return self._flights.get(flight) is not None

    def adopt(self, settings: MediaWikiSettings) -> None:
        """Go on under other limits; what was spent, paused for and remembered stays."""
        self._settings = settings
        self._gate.adopt(settings.budget, self._clock())

    def show(self) -> None:
        """Tell the observer how things stand; with time alone tokens come back and a circuit opens."""
        gate, now_s = self._gate, self._clock()
        state = PoolState(gate.circuit(now_s), gate.tokens(now_s), gate.in_flight, len(self._line))
        self._observer.changed(state)

    async def acquire(self, ask: Acquire) -> Reply:
        """The answer, or the right to fetch it, within the caller's time; else why not."""
        give_up_at_s = self._clock() + ask.timeout_s
        flight = self._flights.get(ask.flight) if ask.flight is not None else None
        if flight is None:
            found = self._known_parts(ask) or await self._found(ask, give_up_at_s)
            if found is not None:
                return found
            expires_at_s = give_up_at_s + self._settings.budget.lease_s
            flight = self._flights.begin(ask.key, ask.lane, self._clock(), expires_at_s)
        elif flight.key is not None and (body := self._cache.fresh(flight.key)) is not None:
            known = Known(body)  # while this one waited to try again, another lane has asked
            self._flights.land(flight, known)
            return known
        return await self._leased(flight, give_up_at_s)

    async def report(self, report: Report) -> Verdict:
        """Take note of how a leased request failed; says what its holder may do next."""
        flight = self._ended(report.flight, report.outcome, report.retry_after_s, report.joined)
        if flight is None:
            return Verdict()
        now_s = self._clock()
        verdict = self._verdict(flight, report, now_s)
        self._refuse_hopeless(now_s)
        self._advance()
        return verdict

    async def land(self, landed: Landed) -> None:
        """Remember the answer to a leased request, and give it to those who have joined."""
        for entry in landed.entries:
            self._cache.put(entry.key, entry.body, is_negative=entry.is_negative)
        flight = self._ended(landed.flight, Outcome.OK, 0.0, landed.joined)
        if flight is not None:
            bodies = {entry.key: entry.body for entry in landed.entries}
            body = bodies.get(flight.key) if flight.key is not None else None
            self._flights.land(flight, None if body is None else Known(body))
            self._advance()

    async def recall_stale(self, keys: Sequence[bytes]) -> Mapping[bytes, bytes]:
        """The answers among these that may stand in for a wiki that has failed, however old."""
        found = {key: body for key in keys if (body := self._cache.stale(key)) is not None}
        self._observer.used_cache(CacheUse.STALE, len(found))
        return found

    def _known_parts(self, ask: Acquire) -> KnownParts | None:
        found = {key: body for key in ask.parts if (body := self._cache.fresh(key)) is not None}
        self._observer.used_cache(CacheUse.HIT, len(found))
        self._observer.used_cache(CacheUse.MISS, len(ask.parts) - len(found))
        return KnownParts(found) if found else None

    def _ended(self, number: int, outcome: Outcome, retry_after_s: float, joined: int) -> Flight | None:
        """The flight whose request ended; None when its lease has run out, and its slot with it."""
        self._observer.used_cache(CacheUse.JOINED, joined)
        flight = self._flights.get(number)
        if flight is not None and self._gate.holds(flight.id):  # else given up between two attempts
            self._observer.ended(outcome)
            self._gate.end(self._clock(), flight.id, outcome, retry_after_s)
        return flight

    async def _found(self, ask: Acquire, give_up_at_s: float) -> Known | Refused | None:
        """What is known, or what another's flight brings; `None`: the caller has to fetch it."""
        if ask.key is None:
            return None
        has_joined = False
        while True:
            known = self._cache.fresh(ask.key)
            if known is not None:
                if not has_joined:
                    is_negative = self._cache.stale(ask.key) is None
                    self._observer.used_cache(CacheUse.NEGATIVE if is_negative else CacheUse.HIT)
                return Known(known)
            flight = self._flights.to_join(ask.key, ask.lane)
            if flight is None:
                self._observer.used_cache(CacheUse.MISS)
                return None
            if not has_joined:
                self._observer.used_cache(CacheUse.JOINED)
                has_joined = True
            wait_until_s = min(give_up_at_s, flight.expires_at_s)
            landed = await _result(flight.landed, wait_until_s - self._clock())
            if landed is not None:
                return landed
            now_s = self._clock()
            if flight.expires_at_s <= now_s:  # its holder is gone: the next one takes over
                self._flights.land(flight, None)
            if give_up_at_s <= now_s:
                message = f"{self._settings.host} did not answer another caller in time"
                return Refused(Refusal.TIMED_OUT, message)

    async def _leased(self, flight: Flight, give_up_at_s: float) -> Lease | Known | Refused:
        now_s = self._clock()
        refused = self._refusal(flight.lane, now_s, give_up_at_s)
        if refused is None:
            waiter = Waiter(flight.id, flight.lane, now_s, give_up_at_s)
            self._line.join(waiter)
            self._advance()
            try:
                await asyncio.wait({waiter.turn}, timeout=give_up_at_s - now_s)
            except asyncio.CancelledError:  # the caller is gone
                if self._gate.holds(flight.id):
                    self._gate.end(self._clock(), flight.id, Outcome.ABANDONED, 0.0)
                self._flights.land(flight, None)
                raise
            else:
                message = f"no request to {self._settings.host} could be sent before the deadline"
                too_late = Refused(Refusal.BUDGET_SPENT, message)
                refused = waiter.turn.result() if waiter.turn.done() else too_late
            finally:
                self._line.leave(waiter)
                self._advance()
        if refused is None:
            flight.expires_at_s = self._clock() + self._settings.budget.lease_s
            return Lease(flight.id)
        self._flights.land(flight, None)  # those who have joined may have more time
        self._observer.refused(refused.reason)
        return self._stale(flight.key) or refused

    def _refusal(self, lane: Lane, now_s: float, give_up_at_s: float) -> Refused | None:
        if len(self._line) >= self._settings.budget.max_waiting:
            message = f"too many queries wait for the request budget of {self._settings.host}"
            return Refused(Refusal.BUDGET_SPENT, message)
        return self._gate.refusal(now_s, self._line.ahead_of(lane), give_up_at_s - now_s, lane)

    def _verdict(self, flight: Flight, report: Report, now_s: float) -> Verdict:
        if report.retry_in_s is not None:
            may_retry = self._gate.take_retry(now_s)
            self._observer.retried(allowed=may_retry)
            if may_retry:
                flight.expires_at_s = now_s + report.retry_in_s + self._settings.budget.lease_s
                return Verdict(may_retry=True)
        if report.outcome is Outcome.ABANDONED:
            self._flights.land(flight, None)
            return Verdict(stale=known.body if (known := self._stale(flight.key)) else None)
        known = self._stale(flight.key)
        self._flights.land(flight, known or report.refusal)
        return Verdict(stale=known.body if known else None)

    def _stale(self, key: bytes | None) -> Known | None:
        body = self._cache.stale(key) if key is not None else None
        if body is None:
            return None
        self._observer.used_cache(CacheUse.STALE)
        return Known(body, is_stale=True)

    def _refuse_hopeless(self, now_s: float) -> None:
        """Tell those at once who can no longer be served in time."""
        ahead = 0
        for waiter in self._line:
            refused = self._gate.refusal(now_s, ahead, waiter.give_up_at_s - now_s, waiter.lane)
            if refused is None:
                ahead += 1
            elif not waiter.turn.done():
                waiter.turn.set_result(refused)

    def _advance(self) -> None:
        """Give out what there is to give, and come back when there is more."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        now_s = self._clock()
        for expired in self._gate.free_expired(now_s):
            self._observer.ended(Outcome.ABANDONED)
            if (lost := self._flights.get(expired)) is not None:
                self._flights.land(lost, None)
        opens_in_s = math.inf
        while len(self._line):
            waiter = self._line.first()
            if not waiter.turn.done():
                opens_in_s = self._gate.opens_in_s(now_s, waiter.lane)
                if opens_in_s > 0:
                    break
                remaining_s = waiter.give_up_at_s - now_s
                refused = self._gate.refusal(now_s, 0, remaining_s, waiter.lane)
                if refused is None:
                    self._gate.start(now_s, waiter.flight)
                    self._observer.waited(now_s - waiter.since_s)
                waiter.turn.set_result(refused)
            self._line.leave(waiter)
        again_in_s = min(opens_in_s, self._gate.next_expiry_in_s(now_s))
        if len(self._line) and again_in_s < math.inf:
            loop = asyncio.get_running_loop()
            self._timer = loop.call_later(max(again_in_s, _SOON_S), self._advance)
        self.show()


async def _result(
    future: "asyncio.Future[Known | Refused | None]", timeout_s: float
) -> Known | Refused | None:
    """The future's result, `None` if it has none in time; other waiters are left alone."""
    done, _ = await asyncio.wait({future}, timeout=max(0.0, timeout_s))
    return future.result() if done else None
