"""This project's application under measurement: a Serve config, changed, in a cluster of its own."""

import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import yaml

from benchmarks.server_process import ServerProcess, free_port, running

Config = dict[str, Any]
"""The content of a Serve config file."""

_HAPROXY_PORTS = ("RAY_SERVE_HAPROXY_METRICS_PORT", "RAY_SERVE_HAPROXY_STATS_PORT")


def read_config(path: Path) -> Config:
    """The content of a Serve config file, to be changed."""
    content: Config = yaml.safe_load(path.read_text("utf-8"))
    return content


@contextmanager
def served(config: Config, env: Mapping[str, str] | None = None) -> Iterator[ServerProcess]:
    """The application of a config on a free port of loopback, until the block ends.

    `env` switches Ray's serving modes. Raises RuntimeError when it does not start.
    """
    port = free_port()
    options = {**config["http_options"], "host": "127.0.0.1", "port": port}
    with tempfile.TemporaryDirectory(prefix="served-") as folder:
        file = Path(folder, "config.yaml")
        file.write_text(yaml.safe_dump({**config, "http_options": options}), "utf-8")
        own = {  # two clusters on one machine must not share these
            "RAY_SERVE_HAPROXY_CONFIG_FILE_LOC": f"{folder}/haproxy.cfg",
            "RAY_SERVE_HAPROXY_SOCKET_PATH": f"{folder}/admin.sock",
            "RAY_SERVE_HAPROXY_SERVER_STATE_BASE": folder,
            "RAY_SERVE_HAPROXY_SERVER_STATE_FILE": f"{folder}/server-state",
            **{name: str(free_port()) for name in _HAPROXY_PORTS},
            # Ray has its workers yield to everybody else; what they are compared with does not
            "RAY_worker_niceness": "0",
        }
        command = [sys.executable, "-m", "deployments.cli", "serve", str(file)]
        with running(command, port, "/readyz", env={**own, **(env or {})}) as server:
            yield server
