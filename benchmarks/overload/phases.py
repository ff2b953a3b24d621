"""The phases of an overload: calm, the peak, three times as much, and the time after it."""

import asyncio
import time
from dataclasses import dataclass
from statistics import median

from benchmarks.load.arrivals import Arrivals
from benchmarks.load.generator import Generator
from benchmarks.load.outcomes import Outcome, Record
from benchmarks.load.settings import (
    ArrivalSettings,
    ClientSettings,
    LoadSettings,
    WorkloadSettings,
)
from benchmarks.load.target import parse_target, wait_until_ready
from benchmarks.load.workloads import workload

PATIENCE = 3.0
"""Clients give up after so many times an answer's median time on the idle server."""
RETRIES = 2
_MOST_AT_ONCE = 64
_READY_WITHIN_S = 10.0
_STILL_PEAK = 0.8


@dataclass(frozen=True, slots=True)
class Clients:
    """Who asks: how long they wait, whether they say so, and how often they come back."""

    url: str
    patience_s: float = 120.0
    tells_deadline: bool = True
    retries: int = 0
    max_new_tokens: int | None = None

    def come(self, arrivals: ArrivalSettings, seconds: float, seed: int = 0) -> list[Record]:
        """One record of each request that came within so many seconds."""
        settings = LoadSettings(
            arrivals=arrivals,
            workload=WorkloadSettings(max_new_tokens=self.max_new_tokens),
            client=ClientSettings(
                timeout_s=self.patience_s,
                deadline_s=self.patience_s if self.tells_deadline else None,
                retries=self.retries,
            ),
            duration_s=seconds,
            warmup_s=0.0,
            seed=seed,
        )
        records: list[Record] = []
        target, _ = wait_until_ready(parse_target(self.url, ()), _READY_WITHIN_S)
        generator = Generator(target, settings, workload(settings), records.append)
        asyncio.run(generator.run(time.monotonic()))
        return records


def one_by_one(clients: Clients, seconds: float) -> float:
    """The median time of an answer on the idle server. Raises RuntimeError where none came."""
    records = clients.come(ArrivalSettings(kind=Arrivals.CLOSED, concurrency=1), seconds)
    answered_s = [record.latency_s for record in records if record.outcome.is_answered]
    if not answered_s:
        raise RuntimeError("the idle server answered nothing: there is nothing to measure")
    return median(answered_s)


def peak_per_s(clients: Clients, seconds: float) -> float:
    """The most good answers a second that clients get who ask again when they are answered."""
    peak, at_once = 0.0, 1
    while at_once <= _MOST_AT_ONCE:
        arrivals = ArrivalSettings(kind=Arrivals.CLOSED, concurrency=at_once)
        good_per_s = goodput_per_s(clients.come(arrivals, seconds, seed=at_once), seconds)
        if good_per_s < _STILL_PEAK * peak:
            break
        peak = max(peak, good_per_s)
        at_once *= 2
    return peak


def goodput_per_s(records: list[Record], seconds: float) -> float:
    """Whole answers a second, of those that came before the client gave up."""
    return sum(record.outcome.is_answered for record in records) / seconds


def recovered_s(records: list[Record]) -> float:
    """When the last request was due that was not answered in time: from then on all is well."""
    return max((record.at_s for record in records if not record.outcome.is_answered), default=0.0)


def shares(records: list[Record]) -> dict[str, float]:
    """What became of the requests, as shares of all."""
    counts = {outcome: sum(record.outcome is outcome for record in records) for outcome in Outcome}
    return {name.value: count / len(records) for name, count in counts.items() if count}
