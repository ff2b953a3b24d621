"""A soak: the application under a steady load for long, and whether memory grows or requests hang."""

import json
import math
import time
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import fmean
from typing import Annotated

import psutil
import typer
from rich.console import Console

from benchmarks.drill.load_beside import DEADLINE_S, capacity_per_s, load_beside
from benchmarks.load.outcomes import Outcome, Record
from benchmarks.report import table
from benchmarks.served_application import read_config, served
from benchmarks.server_process import ServerProcess
from benchmarks.timed_config import with_timed_engine
from crag_core.metrics import percentile

_SAMPLE_EVERY_S = 2.0
_SETTLES_FOR = 0.25
"""The first quarter is left out: caches and pools fill."""
_BLOCKS = 12
_SLACK = 0.02
"""Growth by less than this share of a process is noise, whatever its slope says."""
_CONFIDENCE = 2.8
"""Standard errors of the slope over ten degrees of freedom: about one false alarm in a hundred
processes."""

Sample = tuple[float, float]
"""When, and how many MiB."""


@dataclass(frozen=True, slots=True)
class Memory:
    """One process's resident memory after it had settled."""

    process: str
    mib: float
    grew_mib: float
    at_least_mib: float
    """What it grew by at the lower end of the interval."""

    @property
    def grows(self) -> bool:
        """Whether that is more than noise."""
        return self.at_least_mib > 0 and self.grew_mib > _SLACK * self.mib


@dataclass(frozen=True, slots=True)
class Soaked:
    """A soak's findings."""

    minutes: float
    rate_per_s: float
    requests: int
    outcomes: dict[str, int]
    p50_s: float
    p99_s: float
    stuck: int
    memory: list[Memory]

    @property
    def is_well(self) -> bool:
        """Whether nothing failed, hung or grew."""
        answered = sum(self.outcomes.get(kind, 0) for kind in (Outcome.OK, Outcome.DEGRADED))
        shed = self.outcomes.get(Outcome.SHED, 0)
        is_whole = answered + shed == self.requests and answered > 0 and not self.stuck
        return is_whole and not any(each.grows for each in self.memory)


def soak(
    config: Annotated[Path, typer.Option(help="Serve config file; its engine is timed instead.")] = (
        Path("configs/embedded.yaml")
    ),
    minutes: Annotated[float, typer.Option(help="How long.", min=0.2)] = 30.0,
    load: Annotated[float, typer.Option(help="Share of what it can do.", min=0.01, max=1)] = 0.7,
    rate: Annotated[
        float | None, typer.Option(help="Requests per second, instead of measuring what it can do.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Load the application for long; exit 1 when a process grows, or a request fails or hangs."""
    err = Console(stderr=True)
    with served(with_timed_engine(read_config(config))) as server:
        rate_per_s = rate or load * capacity_per_s(server.url)
        err.print(f"{rate_per_s:.2f} requests a second for {minutes:g} minutes")
        soaked = _soaked(server, rate_per_s, minutes)
    print(json.dumps(asdict(soaked), indent=1) if as_json else markdown(soaked))
    if not soaked.is_well:
        raise typer.Exit(1)


def markdown(soaked: Soaked) -> str:
    """The findings as tables."""
    rows = [
        [
            each.process,
            f"{each.mib:.0f}",
            f"{each.grew_mib:+.1f}",
            f"{each.at_least_mib:+.1f}",
            "yes" if each.grows else "no",
        ]
        for each in sorted(soaked.memory, key=lambda each: -each.mib)
    ]
    outcomes = ", ".join(f"{count} {kind}" for kind, count in soaked.outcomes.items())
    return "\n\n".join(
        [
            f"## Soak: {soaked.minutes:g} minutes at {soaked.rate_per_s:.2f} requests a second",
            f"{soaked.requests} requests: {outcomes}; {soaked.stuck} stuck; "
            f"p50 {soaked.p50_s:.2f} s, p99 {soaked.p99_s:.2f} s",
            table(["process", "MiB", "grew by MiB", "at least", "grows"], rows),
        ]
    )


def growth(samples: Sequence[Sample]) -> tuple[float, float]:
    """By how much a series grew from its beginning to its end, and by how much at least.

    A line through the means of a dozen blocks: neighbouring samples are alike, means of blocks hardly.
    """
    size = len(samples) // _BLOCKS
    if size < 1:
        return 0.0, 0.0
    blocks = [samples[i * size : (i + 1) * size] for i in range(_BLOCKS)]
    points = [(fmean(at for at, _ in block), fmean(mib for _, mib in block)) for block in blocks]
    mean_at, mean_mib = fmean(at for at, _ in points), fmean(mib for _, mib in points)
    spread = sum((at - mean_at) ** 2 for at, _ in points)
    slope = sum((at - mean_at) * (mib - mean_mib) for at, mib in points) / spread
    residuals = sum((mib - mean_mib - slope * (at - mean_at)) ** 2 for at, mib in points)
    error = math.sqrt(residuals / (_BLOCKS - 2) / spread)
    length = samples[-1][0] - samples[0][0]
    return slope * length, (slope - _CONFIDENCE * error) * length


def _soaked(server: ServerProcess, rate_per_s: float, minutes: float) -> Soaked:
    records: list[Record] = []
    samples: dict[tuple[int, str], list[Sample]] = defaultdict(list)
    started_s = time.monotonic()
    with load_beside(server.url, rate_per_s, records):
        while (now_s := time.monotonic() - started_s) < minutes * 60:
            for process, mib in _resident_mib(server).items():
                samples[process].append((now_s, mib))
            time.sleep(_SAMPLE_EVERY_S)
    times_s = [record.end_s - record.at_s for record in records if record.outcome.is_answered]
    outcomes: dict[str, int] = defaultdict(int)
    for record in records:
        outcomes[record.outcome] += 1
    return Soaked(
        minutes,
        rate_per_s,
        len(records),
        dict(outcomes),
        percentile(times_s, 0.5),
        percentile(times_s, 0.99),
        sum(record.end_s - record.at_s > DEADLINE_S for record in records),
        [_memory(name, series, minutes * 60) for (_, name), series in samples.items()],
    )


def _memory(process: str, series: Sequence[Sample], seconds: float) -> Memory:
    settled = [sample for sample in series if sample[0] >= _SETTLES_FOR * seconds]
    grew, at_least = growth(settled)
    return Memory(process, fmean([mib for _, mib in settled] or [0.0]), grew, at_least)


def _resident_mib(server: ServerProcess) -> Mapping[tuple[int, str], float]:
    sizes = {}
    for (pid, name), _ in server.cpu_s_by_process().items():
        try:
            sizes[pid, name] = psutil.Process(pid).memory_info().rss / 2**20
        except psutil.Error:  # it has just ended
            continue
    return sizes
