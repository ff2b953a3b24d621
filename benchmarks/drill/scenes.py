"""What happens to a cluster under load in each scene of a drill."""

import time
from collections.abc import Callable, Mapping

from benchmarks.drill.scene import Scene
from benchmarks.drill.two_nodes import TwoNodes

_DRAINS_WITHIN_S = 30
_POLL_S = 0.5


def rolling_update(nodes: TwoNodes) -> str:
    """Change something of each deployment that any of its replicas has to be told."""
    before = nodes.replicas()
    nodes.change(
        crag={"retrieve_limit": 9},
        retriever={"candidates": 49},
        evaluator={"batching": {"cached_scores": 49_000}},
        searcher={"max_requests": 2},
        generator={"max_num_seqs": 15},
        api={"max_body_s": 29.0},
    )
    after = nodes.replicas()
    kept = [name for name in before if before[name].keys() & after[name].keys()]
    return f"kept a replica of {', '.join(kept)}" if kept else "every replica was replaced"


def kill_replicas(nodes: TwoNodes) -> str:
    """Kill, and wait until Serve has replaced them: the ingress holds the clients' connections."""
    killed = nodes.kill_one_of_each("Ingress")
    _until(lambda: all(len(pids) >= 2 for pids in nodes.replicas().values()))
    return f"killed one of {', '.join(killed)}"


def drain_node(nodes: TwoNodes) -> str:
    """Drain, wait until nothing runs there, and only then let the node go."""
    nodes.drain_second_node(_DRAINS_WITHIN_S)
    _until(lambda: not _on_second_node(nodes))
    nodes.lose_second_node()
    return "drained and removed"


def lose_node(nodes: TwoNodes) -> str:
    """Take a node away with replicas on it."""
    there = _on_second_node(nodes)
    nodes.lose_second_node()
    return f"took away {', '.join(there) or 'nothing'}"


SCENES: Mapping[Scene, Callable[[TwoNodes], str]] = {
    Scene.ROLLING_UPDATE: rolling_update,
    Scene.KILL_REPLICAS: kill_replicas,
    Scene.DRAIN_NODE: drain_node,
    Scene.LOSE_NODE: lose_node,
}


def settled(nodes: TwoNodes) -> None:
    """Have both nodes, and two replicas of each deployment, one on each."""
    if not nodes.second.remaining_processes_alive():
        nodes.add_second_node()
    _until(lambda: all(len(set(pids.values())) == 2 for pids in nodes.replicas().values()))


def _on_second_node(nodes: TwoNodes) -> list[str]:
    here = nodes.second.node_id
    return [name for name, pids in nodes.replicas().items() if here in pids.values()]


def _until(holds: Callable[[], bool], within_s: float = 300.0) -> None:
    give_up_s = time.monotonic() + within_s
    while not holds():
        if time.monotonic() > give_up_s:
            raise RuntimeError("the cluster did not settle in time")
        time.sleep(_POLL_S)
