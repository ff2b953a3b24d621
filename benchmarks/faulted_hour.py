"""An hour of searching in a wiki that has every fault, on simulated time, through several replicas."""

import asyncio
import json
import math
import random
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from benchmarks.simulated_time import run_simulated
from crag_core.errors import SearchFailed
from deployments.backends.wikipedia.budget import (
    Acquire,
    Landed,
    Outcome,
    Refusal,
    Reply,
    Report,
    SearchBudget,
    Verdict,
)
from deployments.backends.wikipedia.mediawiki_api import QueryAnswer
from deployments.backends.wikipedia.pool_observer import CacheUse, NoObserver
from deployments.backends.wikipedia.session import AttemptFailed
from deployments.backends.wikipedia.shared_pool import SharedPool
from deployments.backends.wikipedia.transport import PooledTransport
from deployments.settings import MediaWikiSettings

HOUR_S = 3600.0
SERVER_LIMIT_PER_MINUTE = 200
_MINUTE_S = 60.0
_READ_TIMEOUT_S = 4.0
_PATIENCE_S = 6.0
_DISTINCT_QUERIES = 20_000
_SKEW = 1.1


@dataclass
class FaultyWiki:
    """A wiki that counts what it is asked, and fails by the clock; a `Connection` for any replica."""

    clock: Callable[[], float]
    random: random.Random
    sent_at_s: list[float] = field(default_factory=list)
    queries: Counter[str] = field(default_factory=Counter)
    in_flight: int = 0
    most_in_flight: int = 0
    over_limit: int = 0
    pause_s: tuple[float, float] = (-math.inf, -math.inf)
    sent_in_a_pause: int = 0

    async def send(self, parameters: Mapping[str, str]) -> tuple[bytes, QueryAnswer]:
        """The answer, or the fault of this minute."""
        now_s = self.clock()
        self.sent_at_s.append(now_s)
        self.queries[parameters["gsrsearch"]] += 1
        # a request of the very moment in which the pause was asked for could not know of it
        self.sent_in_a_pause += self.pause_s[0] < now_s < self.pause_s[1]
        self.in_flight += 1
        self.most_in_flight = max(self.most_in_flight, self.in_flight)
        try:
            return await self._answer(now_s, parameters["gsrsearch"])
        finally:
            self.in_flight -= 1

    async def close(self) -> None:
        """Nothing to close."""

    async def _answer(self, now_s: float, query: str) -> tuple[bytes, QueryAnswer]:
        if self._asked_in_the_last_minute() > SERVER_LIMIT_PER_MINUTE:
            self.over_limit += 1
            self._throttle("over the limit", 30.0)
        minute = int(now_s // _MINUTE_S)
        if minute == 5 and self.random.random() < 0.1:
            self._throttle("HTTP 429", 20.0)
        if minute == 8:
            raise AttemptFailed(Outcome.THROTTLED, "API error ratelimited")
        if minute in {20, 21, 22, 23}:  # stalls: the session gives up reading
            await asyncio.sleep(_READ_TIMEOUT_S)
            raise AttemptFailed(Outcome.UNAVAILABLE, "stalled")
        await asyncio.sleep(self.random.uniform(0.1, 0.6))
        if minute in {12, 13} or self.random.random() < 0.01:
            raise AttemptFailed(Outcome.UNAVAILABLE, "HTTP 503")
        if minute == 30 and self.random.random() < 0.5:
            raise AttemptFailed(Outcome.UNAVAILABLE, "HTML instead of JSON")
        if minute == 35:
            raise AttemptFailed(Outcome.BLOCKED, "HTTP 403")
        page = {"pageid": 1, "title": query, "extract": query}
        body = json.dumps({"query": {"pages": [page]}}).encode()
        return body, QueryAnswer.model_validate_json(body)

    def _throttle(self, why: str, pause_s: float) -> None:
        self.pause_s = self.clock(), max(self.pause_s[1], self.clock() + pause_s)
        raise AttemptFailed(Outcome.THROTTLED, why, pause_s)

    def _asked_in_the_last_minute(self) -> int:
        now_s = self.clock()
        return sum(1 for at_s in self.sent_at_s[-2 * SERVER_LIMIT_PER_MINUTE :] if at_s > now_s - 60)


@dataclass
class Tally(NoObserver):
    """What the pool told its observer."""

    cache: Counter[CacheUse] = field(default_factory=Counter)
    outcomes: Counter[Outcome] = field(default_factory=Counter)
    refusals: Counter[Refusal] = field(default_factory=Counter)
    retries: Counter[bool] = field(default_factory=Counter)
    longest_wait_s: float = 0.0

    def used_cache(self, use: CacheUse, times: int = 1) -> None:
        """Counted."""
        self.cache[use] += times

    def waited(self, seconds: float) -> None:
        """The longest is kept."""
        self.longest_wait_s = max(self.longest_wait_s, seconds)

    def refused(self, reason: Refusal) -> None:
        """Counted."""
        self.refusals[reason] += 1

    def ended(self, outcome: Outcome) -> None:
        """Counted."""
        self.outcomes[outcome] += 1

    def retried(self, *, allowed: bool) -> None:
        """Counted."""
        self.retries[allowed] += 1


@dataclass
class MortalBudget:
    """A replica's way to the shared budget; once `is_dead`, nothing it says arrives any more."""

    budget: SearchBudget
    is_dead: bool = False

    async def acquire(self, ask: Acquire) -> Reply:
        """As the budget says."""
        return await self.budget.acquire(ask)

    async def land(self, landed: Landed) -> None:
        """As the budget says, unless dead."""
        if not self.is_dead:
            await self.budget.land(landed)

    async def report(self, report: Report) -> Verdict:
        """As the budget says, unless dead."""
        return Verdict() if self.is_dead else await self.budget.report(report)

    async def recall_stale(self, keys: Sequence[bytes]) -> Mapping[bytes, bytes]:
        """As the budget beneath."""
        return await self.budget.recall_stale(keys)


@dataclass
class Hour:
    """What came of the hour."""

    asked: int = 0
    answered: int = 0
    wrong: int = 0
    late: int = 0
    killed: int = 0
    errors: Counter[str] = field(default_factory=Counter)
    sent: int = 0
    most_in_a_minute: int = 0
    most_in_flight: int = 0
    over_limit: int = 0
    sent_in_a_pause: int = 0
    tally: Tally = field(default_factory=Tally)

    @property
    def unanswered(self) -> int:
        """Questions that were told nothing, although their replica lives."""
        return self.asked - self.answered - sum(self.errors.values()) - self.killed


def faulted_hour(replicas: int, questions_per_s: float, seed: int = 1) -> Hour:
    """Simulate the hour; one replica of several dies in minute 45, with its requests in flight."""
    random.seed(seed)  # the retries' jitter
    return run_simulated(_hour(replicas, questions_per_s, seed))


async def _hour(replicas: int, questions_per_s: float, seed: int) -> Hour:
    loop = asyncio.get_running_loop()
    rng = random.Random(seed)
    settings = MediaWikiSettings(api_url="http://wiki.example/w/api.php", timeout_s=_PATIENCE_S)
    hour = Hour()
    pool = SharedPool(settings, hour.tally, loop.time)
    wiki = FaultyWiki(loop.time, rng)
    budgets = [MortalBudget(pool) for _ in range(replicas)]
    transports = [PooledTransport(settings, wiki, budget) for budget in budgets]
    questions: list[list[asyncio.Task[None]]] = [[] for _ in budgets]
    while loop.time() < HOUR_S:
        if replicas > 1 and loop.time() > 45 * _MINUTE_S and not budgets[-1].is_dead:
            dying = [task for task in questions[-1] if not task.done()]
            budgets[-1].is_dead = bool(dying)
            for task in dying:
                hour.killed += task.cancel()
        alive = len([budget for budget in budgets if not budget.is_dead])
        replica = rng.randrange(alive)
        query = f"query {min(_DISTINCT_QUERIES, int(rng.paretovariate(_SKEW) * 100))}"
        hour.asked += 1
        questions[replica].append(asyncio.create_task(_ask(transports[replica], query, hour)))
        await asyncio.sleep(rng.expovariate(questions_per_s))
    await asyncio.wait([task for tasks in questions for task in tasks], timeout=60)
    hour.sent = len(wiki.sent_at_s)
    hour.most_in_a_minute = most_in(wiki.sent_at_s, _MINUTE_S)
    hour.most_in_flight = wiki.most_in_flight
    hour.over_limit, hour.sent_in_a_pause = wiki.over_limit, wiki.sent_in_a_pause
    return hour


async def _ask(transport: PooledTransport, query: str, hour: Hour) -> None:
    loop = asyncio.get_running_loop()
    started_s = loop.time()
    try:
        answer = await transport.query({"gsrsearch": query}, timeout_s=_PATIENCE_S)
    except SearchFailed as error:
        hour.errors[error.code] += 1
    else:
        hour.answered += 1
        hour.wrong += answer.query.pages[0].title != query
    hour.late += loop.time() - started_s > _PATIENCE_S + 0.2


def most_in(at_s: Sequence[float], window_s: float) -> int:
    """The most moments that fall into any window, of a sorted sequence."""
    first = most = 0
    for last, moment_s in enumerate(at_s):
        while at_s[first] <= moment_s - window_s:
            first += 1
        most = max(most, last - first + 1)
    return most
