"""The command `drill`: scenes under load, with every failed request counted."""

import json
import time
from collections import Counter
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from benchmarks.drill.load_beside import load_beside
from benchmarks.drill.scenes import SCENES, Scene, settled
from benchmarks.drill.two_nodes import TwoNodes, two_nodes
from benchmarks.load.outcomes import Record
from benchmarks.report import table
from benchmarks.served_application import Config, read_config
from benchmarks.server_process import free_port
from benchmarks.timed_config import with_timed_engine
from crag_core.metrics import percentile

_LEAD_S = 5.0


@dataclass(frozen=True, slots=True)
class Happened:
    """What a scene cost its clients; the slowest answer is one that had to be asked for again."""

    scene: Scene
    what: str
    seconds: float
    requests: int
    failed: int
    outcomes: dict[str, int]
    p50_s: float
    slowest_s: float


def drill(
    config: Annotated[Path, typer.Option(help="Serve config file; its engine is timed instead.")] = (
        Path("configs/embedded.yaml")
    ),
    scene: Annotated[list[Scene] | None, typer.Option(help="Default: all of them.")] = None,
    rate: Annotated[float, typer.Option(help="Requests per second.", min=0.1)] = 2.0,
    after_s: Annotated[float, typer.Option(help="Seconds of load after each scene.", min=1)] = 10.0,
    stream: Annotated[bool, typer.Option(help="Stream answers: what has begun can be lost.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Change, kill and take away parts of the application under load; exit 1 when a request failed.

    Two Ray nodes on this machine, every deployment with a replica on each. All is real but the engine.
    """
    err = Console(stderr=True)
    happened = []
    err.print("starting two nodes")
    with two_nodes(_on_both_nodes(read_config(config)), free_port()) as nodes:
        for wanted in scene or list(Scene):
            err.print(f"{wanted}: waiting until both nodes have a replica of everything")
            settled(nodes)
            happened.append(_played(wanted, nodes, rate, after_s, is_streamed=stream))
            last = happened[-1]
            err.print(f"{wanted}: {last.what}; {last.failed} of {last.requests} requests failed")
    print(json.dumps([asdict(each) for each in happened], indent=1) if as_json else markdown(happened))
    if any(each.failed or not each.requests for each in happened):
        raise typer.Exit(1)


def markdown(happened: list[Happened]) -> str:
    """A row per scene."""
    header = ["scene", "what happened", "seconds", "requests", "failed", "p50 s", "slowest s"]
    rows = [
        [
            each.scene, each.what, f"{each.seconds:.1f}", str(each.requests), str(each.failed),
            f"{each.p50_s:.2f}", f"{each.slowest_s:.2f}",
        ]
        for each in happened
    ]  # fmt: skip
    return "## Drill\n\n" + table(header, rows)


def _played(
    scene: Scene, nodes: TwoNodes, rate: float, after_s: float, *, is_streamed: bool
) -> Happened:
    """One scene, with load from before it until after it."""
    records: list[Record] = []
    with load_beside(nodes.url, rate, records, is_streamed=is_streamed):
        time.sleep(_LEAD_S)
        started_s = time.monotonic()
        what = SCENES[scene](nodes)
        seconds = time.monotonic() - started_s
        time.sleep(after_s)
    outcomes = Counter(str(record.outcome) for record in records)
    times_s = [record.end_s - record.at_s for record in records if record.outcome.is_answered]
    return Happened(
        scene,
        what,
        seconds,
        len(records),
        sum(not record.outcome.is_answered for record in records),
        dict(outcomes),
        percentile(times_s, 0.5) if times_s else 0.0,
        max(times_s, default=0.0),
    )


def _on_both_nodes(config: Config) -> Config:
    """The config with two replicas of each deployment, never two on one node, and a timed engine."""
    (application,) = with_timed_engine(config)["applications"]
    for deployment in application["deployments"]:
        deployment |= {
            "num_replicas": 2,
            "max_replicas_per_node": 1,
            "graceful_shutdown_timeout_s": 120,
            "health_check_period_s": 2,
        }
    return config
