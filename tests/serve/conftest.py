"""The embedded application, really served: Ray, vLLM on the CPU, the sample indexes."""

import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

ROOT = Path(__file__).parents[2]
CRAG = Path(sys.executable).with_name("crag")
START_WITHIN_S = 300.0


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


@pytest.fixture(scope="session")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of the application; one for all tests, since it takes a minute to start."""
    port = free_port()
    log = tmp_path_factory.mktemp("serve") / "log.txt"
    with log.open("w") as sink:
        server = subprocess.Popen(
            [CRAG, "serve", "configs/embedded.yaml", "--port", str(port)],
            cwd=ROOT,
            stdout=sink,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    address = f"http://127.0.0.1:{port}"
    try:
        give_up = time.monotonic() + START_WITHIN_S
        while not ready(address):
            assert server.poll() is None, log.read_text("utf-8")
            assert time.monotonic() < give_up, log.read_text("utf-8")
            time.sleep(1)
        yield address
    finally:
        server.send_signal(signal.SIGINT)
        assert server.wait(60) == 0, log.read_text("utf-8")


def ready(address: str) -> bool:
    try:
        return httpx.get(f"{address}/readyz", timeout=5).status_code == httpx.codes.OK
    except httpx.TransportError:
        return False


@pytest.fixture
def client(url: str) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=url, timeout=120) as opened:
        yield opened
