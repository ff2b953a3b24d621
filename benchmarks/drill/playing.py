"""A drill, played: the cluster, the load, and what came of both."""

import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console

from benchmarks.drill.counted_wiki import LIMIT_PER_MINUTE, CountedWiki, counted_wiki
from benchmarks.drill.load_beside import load_beside
from benchmarks.drill.scene import Scene
from benchmarks.drill.scenes import SCENES, settled
from benchmarks.drill.two_nodes import TwoNodes, two_nodes
from benchmarks.load.outcomes import Record
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
    codes: dict[str, int]
    p50_s: float
    slowest_s: float


@dataclass(frozen=True, slots=True)
class Drilled:
    """All scenes, and what the wiki was asked meanwhile."""

    scenes: list[Happened]
    wiki_limit: int
    wiki_requests: int
    wiki_busiest_minute: int
    wiki_most_in_flight: int

    @property
    def is_well(self) -> bool:
        """Whether no request failed, and the budget was kept."""
        is_whole = all(each.requests and not each.failed for each in self.scenes)
        return is_whole and self.wiki_busiest_minute <= self.wiki_limit


def drilled(
    config: Path, scenes: Sequence[Scene], rate: float, after_s: float, *, is_streamed: bool
) -> Drilled:
    """Play the scenes one after the other; says on stderr what it is at."""
    err = Console(stderr=True)
    happened = []
    err.print("starting two nodes")
    with (
        counted_wiki() as wiki,
        two_nodes(_on_both_nodes(read_config(config), wiki), free_port()) as nodes,
    ):
        for scene in scenes:
            err.print(f"{scene}: waiting until both nodes have a replica of everything")
            settled(nodes)
            happened.append(_played(scene, nodes, rate, after_s, is_streamed=is_streamed))
            last = happened[-1]
            err.print(f"{scene}: {last.what}; {last.failed} of {last.requests} requests failed")
    return Drilled(
        happened, LIMIT_PER_MINUTE, len(wiki.asked_s), wiki.busiest_minute, wiki.most_in_flight
    )


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
    times_s = [record.latency_s for record in records if record.outcome.is_answered]
    return Happened(
        scene,
        what,
        seconds,
        len(records),
        sum(not record.outcome.is_answered for record in records),
        dict(Counter(str(record.outcome) for record in records)),
        dict(Counter(record.code for record in records if record.code)),
        percentile(times_s, 0.5),
        max(times_s, default=0.0),
    )


def _on_both_nodes(config: Config, wiki: CountedWiki) -> Config:
    """Two replicas of each deployment, never two on one node; indexes that any node finds; the wiki."""
    (application,) = with_timed_engine(config)["applications"]
    args = application["args"]
    args["retriever"]["index"] = _uri(args["retriever"]["index"])
    args["searcher"] = {"mediawiki": wiki.settings(), "snapshot": _uri(args["searcher"]["snapshot"])}
    for deployment in application["deployments"]:
        deployment |= {
            "num_replicas": 2,
            "max_replicas_per_node": 1,
            "graceful_shutdown_timeout_s": 120,
            "health_check_period_s": 2,
        }
    return config


def _uri(folder: str) -> str:
    return Path(folder).resolve().as_uri()
