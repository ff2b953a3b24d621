"""`python -m benchmarks tail`: the slowest answers at a share of the capacity, against those alone."""

import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from typing import Annotated, Any

import typer
from rich.console import Console

from benchmarks.load.arrivals import Arrivals
from benchmarks.load.outcomes import Record
from benchmarks.load.processes import Run, run_load
from benchmarks.load.settings import (
    MAX_REQUESTS,
    ArrivalSettings,
    LoadSettings,
    WorkloadSettings,
)
from benchmarks.load.summary import Summary, Times, summarise
from benchmarks.load.target import Target, parse_target, wait_until_ready
from benchmarks.load.workloads import WorkloadName
from benchmarks.published import Published
from benchmarks.report import table
from benchmarks.served_application import read_config, served

_WARM_UP_S = 10.0


@dataclass(frozen=True, slots=True)
class Repeat:
    """One repeat: the peak, then alone, then at a share of the peak."""

    capacity_per_s: float
    alone: Times
    loaded: Times
    unanswered: int

    @property
    def times_longer(self) -> float:
        """The loaded p99 over that alone."""
        return self.loaded.p99_s / self.alone.p99_s


@dataclass(frozen=True, slots=True)
class _Wanted:
    target: Target
    workload: WorkloadSettings
    share: float
    at_once: int
    seconds: float
    alone: int
    console: Console


def tail(
    url: Annotated[str | None, typer.Option(help="A running server; none: one is started.")] = None,
    config: Annotated[Path, typer.Option(help="Serve config file of the one started.")] = Path(
        "configs/embedded.yaml"
    ),
    workload: Annotated[WorkloadName, typer.Option(help="What is sent.")] = WorkloadName.W2,
    max_new_tokens: Annotated[int | None, typer.Option(help="Tokens generated at most.")] = None,
    share: Annotated[float, typer.Option(help="Of the capacity.", min=0.05, max=1.0)] = 0.8,
    at_once: Annotated[int, typer.Option(help="In flight, to find the capacity.", min=1)] = 16,
    seconds: Annotated[float, typer.Option(help="Of each measurement under load.", min=1)] = 60.0,
    alone: Annotated[int, typer.Option(help="Requests sent one after the other.", min=5)] = 30,
    repeats: Annotated[int, typer.Option(help="Interleaved repeats.", min=1)] = 3,
    out: Annotated[Path | None, typer.Option(help="Folder for JSON and Markdown.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of Markdown.")] = False,
) -> None:
    """Measure the 99th percentile at a share of the capacity against that of requests sent alone.

    The capacity is what a closed loop gets answered; each repeat finds it anew.
    """
    console = Console(stderr=True)
    with _server(url, config) as address:
        target, reason = wait_until_ready(parse_target(address, ()), 10.0)
        if reason is not None:
            raise typer.BadParameter(reason)
        sent = WorkloadSettings.model_validate({"name": workload, "max_new_tokens": max_new_tokens})
        wanted = _Wanted(target, sent, share, at_once, seconds, alone, console)
        measured = [_repeat(wanted, number) for number in range(repeats)]
    title = f"{workload}, at most {max_new_tokens} new tokens" if max_new_tokens else str(workload)
    data: dict[str, Any] = {
        "share": share,
        "times_longer": [repeat.times_longer for repeat in measured],
        "repeats": [asdict(repeat) for repeat in measured],
    }
    Published("tail", data, markdown(title, share, measured)).show(as_json=as_json, out=out)


def markdown(title: str, share: float, repeats: Sequence[Repeat]) -> str:
    """A row a repeat, and the median of their ratios."""
    header = ["capacity per s", "alone p50 s", "alone p99 s", "loaded p50 s", "loaded p99 s",
              "loaded requests", "not answered", "p99 longer by"]  # fmt: skip
    rows = [
        [
            f"{repeat.capacity_per_s:.3g}", f"{repeat.alone.p50_s:.3f}", f"{repeat.alone.p99_s:.3f}",
            f"{repeat.loaded.p50_s:.3f}", f"{repeat.loaded.p99_s:.3f}", str(repeat.loaded.count),
            str(repeat.unanswered), f"{repeat.times_longer:.2f}",
        ]
        for repeat in repeats
    ]  # fmt: skip
    ratios = [repeat.times_longer for repeat in repeats]
    return "\n\n".join(
        [
            f"## p99 at {100 * share:g} % of the capacity against requests sent alone: {title}",
            table(header, rows),
            f"The 99th percentile is {median(ratios):.2f} times that of requests sent alone "
            f"({min(ratios):.2f} to {max(ratios):.2f}). Latency counts from when a request was due; "
            "arrivals are Poisson.",
        ]
    )


@contextmanager
def _server(url: str | None, config: Path) -> Iterator[str]:
    if url is not None:
        yield url
        return
    with served(read_config(config)) as server:
        yield server.url


def _repeat(wanted: _Wanted, number: int) -> Repeat:
    # other texts each time: no cache may know them
    first = 3 * number
    crowd = ArrivalSettings.model_validate({"kind": Arrivals.CLOSED, "concurrency": wanted.at_once})
    single = ArrivalSettings.model_validate({"kind": Arrivals.CLOSED, "concurrency": 1})
    capacity_per_s = _run(wanted, first, wanted.seconds, crowd).answered_per_s
    alone = _run(wanted, first + 1, 3600.0, single, wanted.alone)
    rate_per_s = wanted.share * capacity_per_s
    loaded = _run(
        wanted, first + 2, wanted.seconds, ArrivalSettings.model_validate({"rate_per_s": rate_per_s})
    )
    if alone.latency is None or loaded.latency is None:
        raise typer.BadParameter("nothing was answered")
    repeat = Repeat(capacity_per_s, alone.latency, loaded.latency, loaded.due - loaded.latency.count)
    wanted.console.print(
        f"repeat {number + 1}: {capacity_per_s:.3g} a second at most; p99 {alone.latency.p99_s:.2f} s "
        f"alone, {loaded.latency.p99_s:.2f} s at {rate_per_s:.3g} a second",
        highlight=False,
    )
    return repeat


def _run(
    wanted: _Wanted, seed: int, seconds: float, arrivals: ArrivalSettings, requests: int | None = None
) -> Summary:
    settings = LoadSettings.model_validate(
        {
            "arrivals": arrivals,
            "workload": wanted.workload,
            "duration_s": seconds,
            "warmup_s": min(_WARM_UP_S, seconds / 4) if requests is None else 0.0,
            "max_requests": requests or MAX_REQUESTS,
            "seed": seed,
        }
    )

    def watch(run: Run, fresh: Sequence[Record]) -> bool:
        return False

    return summarise(run_load(wanted.target, settings, uuid.uuid4().hex[:8], watch))
