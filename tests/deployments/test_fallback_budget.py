"""A replica whose shared budget is out of reach."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from prometheus_client import CollectorRegistry

from benchmarks.simulated_time import run_simulated
from deployments.backends.wikipedia.budget import (
    Acquire,
    BudgetLost,
    Entry,
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
from deployments.backends.wikipedia.fallback_budget import FallbackBudget
from deployments.backends.wikipedia.pool_observer import PoolObserver
from deployments.backends.wikipedia.shared_pool import SharedPool
from deployments.observability.exporters import ClientExporter
from deployments.observability.meter import Meter
from deployments.observability.search_metrics import SearchCounts
from deployments.settings import MediaWikiSettings, SearchBudgetSettings

SETTINGS = MediaWikiSettings(
    api_url="http://wiki.example/w/api.php",
    budget=SearchBudgetSettings(requests_per_minute=180, share_when_lost=0.1),
)


@dataclass
class FarBudget:
    """A shared budget that is out of reach while `is_lost`."""

    pool: SharedPool
    is_lost: bool = False
    calls: int = 0
    landed: list[int] = field(default_factory=list)

    async def acquire(self, ask: Acquire) -> Reply:
        self._reach()
        return await self.pool.acquire(ask)

    async def land(self, landed: Landed) -> None:
        self._reach()
        self.landed.append(landed.flight)
        await self.pool.land(landed)

    async def report(self, report: Report) -> Verdict:
        self._reach()
        return await self.pool.report(report)

    async def recall_stale(self, keys: Sequence[bytes]) -> Mapping[bytes, bytes]:
        self._reach()
        return await self.pool.recall_stale(keys)

    def _reach(self) -> None:
        self.calls += 1
        if self.is_lost:
            raise BudgetLost("gone")


def budgets(observer: PoolObserver | None = None) -> tuple[FarBudget, FallbackBudget]:
    clock = asyncio.get_running_loop().time
    far = FarBudget(SharedPool(SETTINGS, clock=clock))
    return far, FallbackBudget(far, SETTINGS, observer, clock)


async def leases_of_a_minute(budget: FallbackBudget) -> int:
    loop = asyncio.get_running_loop()
    until_s, leases = loop.time() + 60, 0
    while loop.time() < until_s:
        reply = await budget.acquire(Acquire(None, 1.0))
        if isinstance(reply, Lease):
            leases += 1
            await budget.land(Landed(reply.flight))
        else:
            assert isinstance(reply, Refused) and reply.reason is Refusal.BUDGET_SPENT
            await asyncio.sleep(0.5)
    return leases


def test_without_the_shared_budget_a_replica_sends_a_small_share_and_no_more() -> None:
    async def main() -> None:
        far, budget = budgets()
        far.is_lost = True
        assert 10 <= await leases_of_a_minute(budget) <= 18

    run_simulated(main())


def test_what_the_small_share_does_is_counted_and_not_shown_as_the_budget() -> None:
    registry = CollectorRegistry()
    counts = SearchCounts(Meter(ClientExporter(registry)), SETTINGS.host)

    async def main() -> int:
        far, budget = budgets(counts)
        reply = await budget.acquire(Acquire(None, 1.0))
        assert isinstance(reply, Lease)
        await budget.land(Landed(reply.flight))
        assert not list(registry.collect()), "the shared budget counts for itself"
        far.is_lost = True
        return await leases_of_a_minute(budget)

    leases = run_simulated(main())
    host = {"host": SETTINGS.host}

    def value(name: str, **labels: str) -> float:
        return registry.get_sample_value(name, host | labels) or 0.0

    assert value("crag_search_requests_total", outcome="ok") == leases
    assert value("crag_search_wait_seconds_count") == leases
    assert value("crag_search_refused_total", reason="budget_spent") > 0
    assert registry.get_sample_value("crag_search_budget_left", host) is None


def test_a_lost_budget_is_asked_again_now_and_then_and_used_when_it_is_back() -> None:
    async def main() -> None:
        far, budget = budgets()
        await asyncio.sleep(60)
        far.is_lost = True
        for _ in range(50):
            await budget.acquire(Acquire(b"key", 0.0))
        assert far.calls == 1
        far.is_lost = False
        await asyncio.sleep(3)
        reply = await budget.acquire(Acquire(b"key", 1.0))
        assert isinstance(reply, Lease) and far.pool.knows(reply.flight)

    run_simulated(main())


def test_a_lease_is_reported_to_whoever_gave_it() -> None:
    async def main() -> None:
        far, budget = budgets()
        await asyncio.sleep(60)
        shared = await budget.acquire(Acquire(b"first", 1.0))
        far.is_lost = True
        own = await budget.acquire(Acquire(b"second", 1.0))
        assert isinstance(shared, Lease) and isinstance(own, Lease)
        far.is_lost = False
        await asyncio.sleep(3)
        await budget.land(Landed(own.flight))
        await budget.land(Landed(shared.flight))
        assert far.landed == [shared.flight]

    run_simulated(main())


def test_what_cannot_be_told_is_no_failure_of_the_query_and_is_remembered_here() -> None:
    async def main() -> None:
        far, budget = budgets()
        lease = await budget.acquire(Acquire(b"key", 5.0))
        assert isinstance(lease, Lease)
        far.is_lost = True
        assert await budget.report(Report(lease.flight, Outcome.UNAVAILABLE)) == Verdict()
        await budget.land(Landed(lease.flight, [Entry(b"title", b"{}")]))
        both = Acquire(None, 5.0, parts=[b"title", b"other"])
        assert await budget.acquire(both) == KnownParts({b"title": b"{}"})
        assert await budget.recall_stale([b"title", b"other"]) == {b"title": b"{}"}

    run_simulated(main())
