"""What a replica does while it cannot reach the shared budget: it goes on, with little."""

import logging
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TypeVar

from deployments.backends.wikipedia.budget import (
    Acquire,
    BudgetLost,
    Landed,
    Reply,
    Report,
    SearchBudget,
    Verdict,
)
from deployments.backends.wikipedia.pool_observer import PoolObserver
from deployments.backends.wikipedia.shared_pool import SharedPool
from deployments.settings import MediaWikiSettings

_logger = logging.getLogger(__name__)

_TRIED_AGAIN_AFTER_S = 2.0
"""A lost budget is asked again after so long, so that not every query waits to find it lost."""


Told = TypeVar("Told")


class FallbackBudget:
    """A SearchBudget that is lost at times: then this process has a small share of its own.

    The shares of all replicas together stay within the budget (`share_when_lost`), so losing it can make
    searching scarce and never makes it impolite.
    """

    def __init__(
        self,
        shared: SearchBudget,
        settings: MediaWikiSettings,
        observer: PoolObserver | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Asks `shared` first; `observer` sees what the small share does, `clock` gives seconds."""
        self._shared = shared
        self._host = settings.host
        alone = settings.model_copy(update={"budget": settings.budget.when_lost()})
        self._clock = clock
        self._own = SharedPool(alone, observer, clock)
        self._lost_at_s: float | None = None
        self.waiting = 0
        """Queries of this process that wait for the budget."""

    async def acquire(self, ask: Acquire) -> Reply:
        """As the shared budget says, or this process's own."""
        self.waiting += 1
        try:
            if ask.flight is not None and self._own.knows(ask.flight):
                return await self._own.acquire(ask)
            return await self._either(lambda: self._shared.acquire(ask), lambda: self._own.acquire(ask))
        finally:
            self.waiting -= 1

    async def land(self, landed: Landed) -> None:
        """To whoever gave the lease; where the budget is lost by now, it is remembered here."""
        if self._own.knows(landed.flight):
            return await self._own.land(landed)
        await self._either(lambda: self._shared.land(landed), lambda: self._own.land(landed))

    async def report(self, report: Report) -> Verdict:
        """To whoever gave the lease; what is told to a lost budget is lost."""
        if self._own.knows(report.flight):
            return await self._own.report(report)
        return await self._either(lambda: self._shared.report(report), _no_verdict)

    async def recall_stale(self, keys: Sequence[bytes]) -> Mapping[bytes, bytes]:
        """What is known there, or here, however old."""
        return await self._either(
            lambda: self._shared.recall_stale(keys), lambda: self._own.recall_stale(keys)
        )

    async def _either(
        self, shared: Callable[[], Awaitable[Told]], own: Callable[[], Awaitable[Told]]
    ) -> Told:
        lost_at_s = self._lost_at_s
        if lost_at_s is not None and self._clock() < lost_at_s + _TRIED_AGAIN_AFTER_S:
            return await own()
        try:
            reply = await shared()
        except BudgetLost as error:
            if lost_at_s is None:
                _logger.warning(
                    "the shared request budget for %s is out of reach (%s): this replica goes on "
                    "with a small share of its own",
                    self._host,
                    error,
                )
            self._lost_at_s = self._clock()
            return await own()
        if self._lost_at_s is not None:
            _logger.warning("the shared request budget for %s is back", self._host)
            self._lost_at_s = None
        return reply


async def _no_verdict() -> Verdict:
    return Verdict()
