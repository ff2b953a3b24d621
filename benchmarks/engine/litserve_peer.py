"""LitServe as a peer: its own server on loopback, and a client that sends whole questions at once."""

import asyncio
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

import httpx
import psutil
from transformers import T5ForSequenceClassification

from benchmarks.engine.peer_package import peer_package
from benchmarks.engine.peers import Pairs

WAIT_S = 0.001
"""All pairs are there at once, so waiting for more of them gains nothing."""

_REQUIREMENTS = ("litserve==0.2.19",)
_START_TIMEOUT_S = 180
_STOP_TIMEOUT_S = 20
_POLL_S = 0.25


class LitServePeer:
    """A running server, one request per pair."""

    def __init__(self, url: str, server: psutil.Process) -> None:
        self._url = url
        self._server = server
        self._client_s = 0.0
        self._at_start_s = self._cpu_by_process_s()

    def __call__(self, pairs: Pairs) -> list[float]:
        """One score per pair, all of them asked for at once."""
        started_s = time.process_time()
        scores = asyncio.run(self._ask_all(pairs))
        self._client_s += time.process_time() - started_s
        return scores

    def cpu_time(self) -> float:
        """CPU seconds so far of this process, which is the client, and of the server's."""
        return time.process_time() + sum(self._cpu_by_process_s().values())

    def http_share(self) -> float:
        """Of the CPU time of server and client, what went outside the process that runs the model."""
        used_s = [now - self._at_start_s.get(pid, 0.0) for pid, now in self._cpu_by_process_s().items()]
        total_s = sum(used_s) + self._client_s
        return (total_s - max(used_s)) / total_s

    def _cpu_by_process_s(self) -> dict[int, float]:
        times = {one.pid: one.cpu_times() for one in _tree(self._server)}
        return {pid: used.user + used.system for pid, used in times.items()}

    async def _ask_all(self, pairs: Pairs) -> list[float]:
        limits = httpx.Limits(max_connections=64, max_keepalive_connections=64)
        async with httpx.AsyncClient(timeout=None, limits=limits, trust_env=False) as client:

            async def ask(pair: Sequence[int]) -> float:
                reply = await client.post(self._url, json={"ids": list(pair)})
                reply.raise_for_status()
                return float(reply.json()["score"])

            return await asyncio.gather(*map(ask, pairs))


@contextmanager
def litserve_peer(
    model: T5ForSequenceClassification,
    threads: int,
    max_pairs: int,
    wait_s: float = WAIT_S,
) -> Iterator[LitServePeer | None]:
    """A LitServe server of the model, stopped at the end; None when it cannot be installed."""
    package = peer_package("litserve", *_REQUIREMENTS)
    if package is None:
        yield None
        return
    with tempfile.TemporaryDirectory() as checkpoint:
        model.save_pretrained(checkpoint)
        port = _free_port()
        path = f"PYTHONPATH={package.resolve()}"
        program = ["env", path, sys.executable, "-m", "benchmarks.engine.litserve_app"]
        settings = [checkpoint, str(port), str(threads), str(max_pairs), str(wait_s)]
        log = Path(checkpoint, "server.log")
        with log.open("wb") as output:
            process = subprocess.Popen(
                [*program, *settings], stdout=output, stderr=output, start_new_session=True
            )
        try:
            _wait_until_ready(process, port, log)
            server = psutil.Process(process.pid)
            yield LitServePeer(f"http://127.0.0.1:{port}/predict", server)
        finally:
            _stop(process)


def _wait_until_ready(process: subprocess.Popen[bytes], port: int, log: Path) -> None:
    give_up = time.monotonic() + _START_TIMEOUT_S
    while process.poll() is None and time.monotonic() < give_up:
        try:
            if httpx.get(f"http://127.0.0.1:{port}/health", trust_env=False).is_success:
                return
        except httpx.TransportError:
            pass
        time.sleep(_POLL_S)
    raise RuntimeError(f"LitServe did not start; its log ends: {log.read_text('utf-8')[-2000:]}")


def _stop(server: subprocess.Popen[bytes]) -> None:
    """End the server and the processes that it started, even where it is gone itself."""
    with suppress(ProcessLookupError):
        os.killpg(server.pid, signal.SIGKILL)
    server.wait(_STOP_TIMEOUT_S)


def _tree(server: psutil.Process) -> list[psutil.Process]:
    return [server, *server.children(recursive=True)]


def _free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port: int = listener.getsockname()[1]
        return port
