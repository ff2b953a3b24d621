"""The application on two Ray nodes of this machine, each a raylet of its own, and their fates."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import ray
from ray import serve
from ray.cluster_utils import Cluster
from ray.serve.context import _get_global_client
from ray.serve.schema import ServeDeploySchema

from benchmarks.served_application import Config
from deployments import local

_CPUS = 16
"""Of each node, whatever the machine has: the replicas ask for little, and must find room on one."""

Replicas = Mapping[str, Mapping[int, str]]
"""Of each deployment the replicas that take requests: process ids, and the node each is on."""


@dataclass
class TwoNodes:
    """A cluster whose second node can be drained or lost; the first has the HTTP proxy."""

    url: str
    config: Config
    cluster: Any
    second: Any

    def replicas(self) -> Replicas:
        """What runs where."""
        controller = _get_global_client()
        assert controller is not None, "Serve runs"
        (application,) = controller.get_serve_details()["applications"].values()
        return {
            name: {
                replica["pid"]: replica["node_id"]
                for replica in deployment["replicas"]
                if replica["state"] == "RUNNING"
            }
            for name, deployment in application["deployments"].items()
        }

    def change(self, **args: Any) -> None:
        """Roll out the config with other settings, and wait until that is done."""
        (application,) = self.config["applications"]
        for name, values in args.items():
            application["args"][name] = {**application["args"].get(name, {}), **values}
        local.deploy(ServeDeploySchema.model_validate(self.config))
        local.wait_until_running(lambda states: None)

    def kill_one_of_each(self, *spared: str) -> list[str]:
        """Kill one replica of each deployment but those; returns their deployments."""
        killed = [name for name in self.replicas() if name not in spared]
        for name in killed:
            os.kill(min(self.replicas()[name]), signal.SIGKILL)
        return killed

    def drain_second_node(self, within_s: int) -> None:
        """Ask Ray to move everything off the second node, as a pod that is told to end does."""
        ray_command = str(Path(sys.executable).with_name("ray"))
        command = [ray_command, "drain-node", "--address", self.cluster.address]
        command += ["--node-id", self.second.node_id, "--reason", "DRAIN_NODE_REASON_PREEMPTION"]
        command += ["--reason-message", "drill", "--deadline-remaining-seconds", str(within_s)]
        subprocess.run(command, check=True, capture_output=True)

    def lose_second_node(self) -> None:
        """Kill the second node's raylet, and with it all that runs there."""
        self.cluster.remove_node(self.second, allow_graceful=False)

    def add_second_node(self) -> None:
        """Start another one in its place."""
        self.second = self.cluster.add_node(num_cpus=_CPUS)
        self.cluster.wait_for_nodes()


@contextmanager
def two_nodes(config: Config, port: int) -> Iterator[TwoNodes]:
    """The application of a config on two nodes, until the block ends."""
    config["http_options"] |= {"host": "127.0.0.1", "port": port}
    local.set_environment()
    # Ray has its workers yield to everybody else, and would be starved on a machine that others use
    os.environ.setdefault("RAY_worker_niceness", "0")
    head = {"num_cpus": _CPUS, "include_dashboard": False}
    cluster: Any = Cluster(initialize_head=True, head_node_args=head)
    try:
        second = cluster.add_node(num_cpus=_CPUS)
        ray.init(address=cluster.address, namespace="serve", log_to_driver=False)
        cluster.wait_for_nodes()
        local.deploy(ServeDeploySchema.model_validate(config))
        local.wait_until_running(lambda states: None)
        yield TwoNodes(f"http://127.0.0.1:{port}", config, cluster, second)
        serve.shutdown()  # type: ignore[no-untyped-call]  # Serve does not annotate it
    finally:
        ray.shutdown()
        cluster.shutdown()
