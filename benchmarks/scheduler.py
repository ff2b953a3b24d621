"""The scheduler alone, on a simulated device: ours against `@serve.batch`, default and hand-tuned.

Open loop: requests arrive at random at a fixed mean rate, whatever becomes of earlier ones, and a
request's latency counts from the moment it was due. One that is not answered when the run ends counts
with its age, so the latencies of a queue that never drains are lower bounds.
"""

import asyncio
import json
import random
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from statistics import fmean, median
from typing import Annotated

import typer
from ray import serve
from ray.serve._private.common import DeploymentID, ReplicaID
from ray.serve._private.config import DeploymentConfig
from ray.serve.context import _set_internal_replica_context
from ray.serve.schema import ReplicaRank

from benchmarks.report import table
from crag_core.context import RequestContext
from crag_core.metrics import percentile
from crag_core.types import Passage
from deployments.backends.batching.pair_scorer import PreparedPair
from deployments.backends.batching.token_batcher import TokenBatcher
from deployments.settings import BatchingSettings

MAX_PAIRS_PER_BATCH = 64
TOKENS_PER_PAIR = 100
OURS, DEFAULT, TUNED = "ours", "serve.batch, 10 ms (default)", "serve.batch, 50 ms (hand-tuned)"

Submit = Callable[[int], Awaitable[object]]
Policy = Callable[["Device"], AbstractAsyncContextManager[Submit]]


@dataclass(frozen=True, slots=True)
class Device:
    """A device that sleeps: `fixed_ms + per_pair_ms · pairs` per batch."""

    fixed_ms: float
    per_pair_ms: float
    overruns: list[float] = field(default_factory=list, compare=False)
    """For each batch, the time that it took as a multiple of the time it was to take."""

    @property
    def name(self) -> str:
        """The device in words."""
        return f"{self.fixed_ms:g} ms + {self.per_pair_ms:g} ms/pair"

    def work(self, pairs: int) -> None:
        """Run a batch, blocking."""
        seconds = (self.fixed_ms + self.per_pair_ms * pairs) / 1000
        started = time.perf_counter()
        time.sleep(seconds)
        self.overruns.append((time.perf_counter() - started) / max(seconds, 1e-9))


SCENARIOS = [
    (Device(50, 1), 80),
    (Device(50, 1), 150),
    (Device(20, 0.6), 400),
]


@dataclass(frozen=True, slots=True)
class SimulatedScorer:
    """Scores nothing, in the device's time."""

    device: Device
    identity: str = "simulated"

    def prepare(self, question: str, passages: Sequence[Passage]) -> list[PreparedPair]:
        """Pairs of one fixed length, no two the same."""
        return [PreparedPair((question, p.text), TOKENS_PER_PAIR, None) for p in passages]

    def score(self, pairs: Sequence[PreparedPair]) -> list[float]:
        """Scores of 0, after the device's time."""
        self.device.work(len(pairs))
        return [0.0] * len(pairs)


@dataclass(frozen=True, slots=True)
class Run:
    """One policy under one load, once."""

    device: str
    rate_per_s: int
    policy: str
    requests: int
    unfinished: int
    p50_ms: float
    p95_ms: float
    p99_ms: float
    device_overrun: float
    """Mean over the batches; well above 1 the machine was too busy for any figure to count."""


@dataclass(frozen=True, slots=True)
class CpuCost:
    """What scheduling costs when the device takes no time, all threads together."""

    pairs_per_request: int
    pairs: int
    cpu_us_per_pair: float


def scheduler(
    seconds: Annotated[float, typer.Option(help="Length of one run.", min=1)] = 9.5,
    repeats: Annotated[int, typer.Option(help="Interleaved repeats; medians count.", min=1)] = 2,
    seed: Annotated[int, typer.Option(help="Seeds the arrivals, the same for every policy.")] = 1,
    out: Annotated[Path | None, typer.Option(help="Write every run here, as JSON.")] = None,
) -> None:
    """Compare our scheduler with Ray Serve's batching queue, and measure its CPU cost per pair."""
    costs = [cpu_cost(pairs_per_request) for pairs_per_request in (1, 10, 31)]
    runs = [
        run(name, policy, device, rate, seconds, seed + repeat)
        for repeat in range(repeats)
        for device, rate in SCENARIOS
        for name, policy in POLICIES.items()
    ]
    if out is not None:
        _write(out, runs, costs)
    print(markdown(runs, costs))


def run(name: str, policy: Policy, device: Device, rate: int, seconds: float, seed: int) -> Run:
    """One policy under random arrivals for so many seconds."""
    due_s = _arrivals(rate, seconds, seed)
    device.overruns.clear()
    latencies_ms, unfinished = asyncio.run(_serve(policy, device, due_s, seconds))
    p50, p95, p99 = (percentile(latencies_ms, share) for share in (0.5, 0.95, 0.99))
    overrun = fmean(device.overruns)
    return Run(device.name, rate, name, len(due_s), unfinished, p50, p95, p99, overrun)


def cpu_cost(pairs_per_request: int, callers: int = 32, pairs: int = 40_000) -> CpuCost:
    """CPU time per pair of callers that ask again as soon as they are answered."""
    requests = pairs // (callers * pairs_per_request)

    async def ask(batcher: TokenBatcher, caller: int) -> None:
        for request in range(requests):
            question = f"{caller} {request}"
            passages = [Passage(f"{position}") for position in range(pairs_per_request)]
            await batcher.evaluate(RequestContext.starting_now(question, 60), question, passages)

    async def ask_all() -> float:
        batcher = TokenBatcher(SimulatedScorer(Device(0, 0)), _settings())
        started = time.process_time()
        await asyncio.gather(*(ask(batcher, caller) for caller in range(callers)))
        cpu_s = time.process_time() - started
        await batcher.stop()
        return cpu_s

    total = requests * callers * pairs_per_request
    return CpuCost(pairs_per_request, total, 1e6 * asyncio.run(ask_all()) / total)


def markdown(runs: Sequence[Run], costs: Sequence[CpuCost]) -> str:
    """Medians over the repeats, the ratios to ours, and the CPU cost."""
    return "\n\n".join(
        [
            "## Scheduler on a simulated device",
            table(
                ["device", "requests/s", "policy", "p50 ms", "p95 ms", "p99 ms", "unfinished",
                 "device overrun", "our p50 / this p50"],
                [_row(runs, device.name, rate, name) for device, rate in SCENARIOS for name in POLICIES],
            ),
            table(
                ["pairs per request", "pairs", "CPU µs per pair"],
                [
                    [str(cost.pairs_per_request), str(cost.pairs), f"{cost.cpu_us_per_pair:.1f}"]
                    for cost in costs
                ],
            ),
        ]
    )  # fmt: skip


def _row(runs: Sequence[Run], device: str, rate: int, policy: str) -> list[str]:
    def of(name: str, figure: Callable[[Run], float]) -> float:
        same = [r for r in runs if (r.device, r.rate_per_s, r.policy) == (device, rate, name)]
        return median(figure(r) for r in same)

    p50 = of(policy, lambda r: r.p50_ms)
    return [
        device,
        str(rate),
        policy,
        f"{p50:.0f}",
        f"{of(policy, lambda r: r.p95_ms):.0f}",
        f"{of(policy, lambda r: r.p99_ms):.0f}",
        f"{100 * of(policy, lambda r: r.unfinished / r.requests):.0f} %",
        f"{of(policy, lambda r: r.device_overrun):.2f}",
        f"{of(OURS, lambda r: r.p50_ms) / p50:.3f}",
    ]


@asynccontextmanager
async def _ours(device: Device) -> AsyncIterator[Submit]:
    batcher = TokenBatcher(SimulatedScorer(device), _settings())

    async def submit(number: int) -> object:
        ctx = RequestContext.starting_now(str(number), 60)
        return await batcher.evaluate(ctx, str(number), [Passage("passage")])

    yield submit
    await batcher.stop()


def _serve_batch(wait_s: float) -> Policy:
    @asynccontextmanager
    async def policy(device: Device) -> AsyncIterator[Submit]:
        pretend_to_be_a_replica()
        thread = ThreadPoolExecutor(max_workers=1)

        @serve.batch(max_batch_size=MAX_PAIRS_PER_BATCH, batch_wait_timeout_s=wait_s)
        async def score(numbers: list[int]) -> list[float]:
            await asyncio.get_running_loop().run_in_executor(thread, device.work, len(numbers))
            return [0.0] * len(numbers)

        yield score
        # What it still holds is cancelled with the loop, and each cancelled batch logs a failure.
        asyncio.get_running_loop().set_exception_handler(lambda loop, context: None)
        thread.shutdown(wait=False, cancel_futures=True)

    return policy


POLICIES: dict[str, Policy] = {
    OURS: _ours,
    DEFAULT: _serve_batch(0.01),
    TUNED: _serve_batch(0.05),
}


def _settings() -> BatchingSettings:
    return BatchingSettings(max_tokens_per_batch=MAX_PAIRS_PER_BATCH * TOKENS_PER_PAIR, cached_scores=0)


def pretend_to_be_a_replica() -> None:
    """`@serve.batch` reads its replica's limits, and has no public way to run outside one."""
    _set_internal_replica_context(
        replica_id=ReplicaID("benchmark", DeploymentID("scheduler")),
        servable_object=pretend_to_be_a_replica,
        _deployment_config=DeploymentConfig(max_ongoing_requests=100_000),
        rank=ReplicaRank(rank=0, node_rank=0, local_rank=0),
        world_size=1,
    )


async def _serve(
    policy: Policy, device: Device, due_s: Sequence[float], seconds: float
) -> tuple[list[float], int]:
    """Latency of each request in ms, and how many were unfinished when the time was up."""
    latencies_ms: list[float] = []
    async with policy(device) as submit:
        started = time.perf_counter()

        async def ask(number: int) -> None:
            await submit(number)
            latencies_ms.append(1000 * (time.perf_counter() - started - due_s[number]))

        asks: list[asyncio.Task[None]] = []
        for number, due in enumerate(due_s):
            await asyncio.sleep(max(0.0, due - (time.perf_counter() - started)))
            asks.append(asyncio.create_task(ask(number)))
        await asyncio.sleep(max(0.0, seconds - (time.perf_counter() - started)))
        ages_ms = [
            1000 * (seconds - due) for due, task in zip(due_s, asks, strict=True) if not task.done()
        ]
        for task in asks:
            task.cancel()
        await asyncio.gather(*asks, return_exceptions=True)
    return latencies_ms + ages_ms, len(ages_ms)


def _arrivals(rate: float, seconds: float, seed: int) -> list[float]:
    rng = random.Random(seed)
    due_s: list[float] = []
    now_s = rng.expovariate(rate)
    while now_s < seconds:
        due_s.append(now_s)
        now_s += rng.expovariate(rate)
    return due_s


def _write(path: Path, runs: Sequence[Run], costs: Sequence[CpuCost]) -> None:
    figures = {"runs": [asdict(r) for r in runs], "cpu": [asdict(cost) for cost in costs]}
    aside = path.with_name(f"{path.name}.partial")
    aside.write_text(json.dumps(figures, indent=1), "utf-8")
    aside.replace(path)
