"""Whether explanations hold up answers: the same answers beside none, and beside many."""

import json
import secrets
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Self

import typer

from benchmarks.load.arrivals import Arrivals
from benchmarks.load.outcomes import Record
from benchmarks.load.processes import Run, run_load
from benchmarks.load.settings import ArrivalSettings, LoadSettings, WorkloadSettings
from benchmarks.load.target import Target, TargetError, parse_target, wait_until_ready
from benchmarks.load.workloads import WorkloadName
from benchmarks.report import table
from benchmarks.served_application import read_config, served
from benchmarks.timed_config import with_timed_engine
from crag_core.metrics import percentile

_READY_WITHIN_S = 60.0


def explain_delay(
    url: Annotated[
        str | None,
        typer.Option(help="A server on loopback; by default --config's is started, its engine timed."),
    ] = None,
    config: Annotated[Path, typer.Option(help="A Serve config file.")] = Path("configs/embedded.yaml"),
    rounds: Annotated[int, typer.Option(help="Each with a quiet and a busy part.", min=1)] = 4,
    duration_s: Annotated[float, typer.Option(help="Seconds of a part.", min=1)] = 30.0,
    concurrency: Annotated[int, typer.Option(help="Answers in flight.", min=1)] = 1,
    background: Annotated[int, typer.Option(help="Explanations in flight.", min=1)] = 4,
    max_new_tokens: Annotated[int, typer.Option(help="Tokens of an answer.", min=1)] = 16,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Answers' latency beside saturating explanations against none, in interleaved parts.

    With a timed engine everything but the generator is real; a server given by --url is as it is.
    """
    with _server(url, config) as target:
        parts = _measured(target, rounds, duration_s, concurrency, background, max_new_tokens)
    quiet, busy = ([r for r in records if not r.is_background] for records in parts)
    explained = [record for record in parts[1] if record.is_background]
    arms = [_Arm.of(part) for part in (quiet, busy)]
    failed = sum(not record.outcome.is_answered for record in explained)
    if as_json:
        beside = {"explanations": len(explained), "explanations_failed": failed}
        print(json.dumps({"none": vars(arms[0]), "beside": vars(arms[1]), **beside}))
        return
    rows = [
        [name, str(arm.answers), str(arm.failed), f"{arm.p50_s:.3f}", f"{arm.p99_s:.3f}",
         f"{arm.p99_s / arms[0].p99_s:.2f}"]
        for name, arm in zip(("none", f"{background} in flight"), arms, strict=True)
    ]  # fmt: skip
    print(table(["explanations", "answers", "failed", "p50 s", "p99 s", "p99, times"], rows))
    print(f"{len(explained)} explanations beside them, {failed} failed")


@contextmanager
def _server(url: str | None, config: Path) -> Iterator[Target]:
    """The server that was named, or one that ends with the block."""
    if url is None:
        with served(with_timed_engine(read_config(config), keep=["explain"])) as server:
            yield _ready(server.url)
    else:
        yield _ready(url)


def _ready(url: str) -> Target:
    try:
        target, reason = wait_until_ready(parse_target(url, ()), _READY_WITHIN_S)
    except TargetError as error:
        raise typer.BadParameter(str(error)) from error
    if reason is not None:
        raise typer.BadParameter(reason)
    return target


def _measured(
    target: Target,
    rounds: int,
    duration_s: float,
    concurrency: int,
    background: int,
    max_new_tokens: int,
) -> tuple[list[Record], list[Record]]:
    """Records of the quiet parts and of the busy ones, a quiet one first in each round."""
    parts: dict[int, list[Record]] = {0: [], background: []}
    for round_ in range(rounds):
        for explanations, records in parts.items():
            settings = LoadSettings(
                arrivals=ArrivalSettings(kind=Arrivals.CLOSED, concurrency=concurrency),
                workload=WorkloadSettings(
                    name=WorkloadName.W5, background=explanations, max_new_tokens=max_new_tokens
                ),
                duration_s=duration_s,
                warmup_s=2.0,
                seed=2 * round_ + bool(explanations),  # texts that no cache knows from the other part
            )
            run = run_load(target, settings, secrets.token_hex(4), _go_on)
            records += [
                record
                for record in run.records
                if record.is_background or record.at_s >= settings.warmup_s
            ]
    return parts[0], parts[background]


@dataclass(frozen=True)
class _Arm:
    """The answers of all parts of one kind."""

    answers: int
    failed: int
    p50_s: float
    p99_s: float

    @classmethod
    def of(cls, records: Sequence[Record]) -> Self:
        """Sums up; raises typer.BadParameter when nothing was answered."""
        if not records:
            raise typer.BadParameter("no answer came in a whole part: allow it more --duration-s")
        latencies_s = [record.latency_s for record in records]
        failed = sum(not record.outcome.is_answered for record in records)
        return cls(len(records), failed, percentile(latencies_s, 0.5), percentile(latencies_s, 0.99))


def _go_on(run: Run, fresh: object) -> bool:
    return False
