"""The actor that holds a wiki's request budget for the whole cluster."""

import asyncio
from collections.abc import Mapping, Sequence

from deployments.backends.wikipedia.budget import (
    Acquire,
    Landed,
    Reply,
    Report,
    Verdict,
)
from deployments.backends.wikipedia.shared_pool import SharedPool
from deployments.observability.meter import meter
from deployments.observability.search_metrics import SearchMetrics
from deployments.settings import MediaWikiSettings

_SHOWN_EVERY_S = 5.0


class SearchBudgetActor:
    """A SharedPool outside all replicas, so that their number changes nothing."""

    def __init__(self, settings: MediaWikiSettings) -> None:
        """An empty pool; what replicas send on a small share of their own they count themselves."""
        self._pool = SharedPool(settings, SearchMetrics(meter(), settings.host))
        self._showing: asyncio.Task[None] | None = None

    async def adopt(self, settings: MediaWikiSettings) -> None:
        """Take over the limits of an application that has just started."""
        self._pool.adopt(settings)
        if self._showing is None:  # not in __init__: there the actor's loop does not run yet
            self._showing = asyncio.create_task(self._show())

    async def ping(self) -> None:
        """Answers, while it can."""

    async def acquire(self, ask: Acquire) -> Reply:
        """As SharedPool."""
        return await self._pool.acquire(ask)

    async def land(self, landed: Landed) -> None:
        """As SharedPool."""
        await self._pool.land(landed)

    async def report(self, report: Report) -> Verdict:
        """As SharedPool."""
        return await self._pool.report(report)

    async def recall_stale(self, keys: Sequence[bytes]) -> Mapping[bytes, bytes]:
        """As SharedPool."""
        return await self._pool.recall_stale(keys)

    async def _show(self) -> None:
        while True:
            self._pool.show()
            await asyncio.sleep(_SHOWN_EVERY_S)
