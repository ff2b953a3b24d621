"""LitServe as a peer: its own server on loopback, and a client that sends whole questions at once."""

import asyncio
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import httpx
from transformers import T5ForSequenceClassification

from benchmarks.engine.peers import Pairs
from benchmarks.peer_environment import PeerNotInstalled, peer_python
from benchmarks.server_process import ServerProcess, free_port, running

LITSERVE = ("litserve==0.2.19",)

WAIT_S = 0.001
"""All pairs are there at once, so waiting for more of them gains nothing."""


class LitServePeer:
    """A running server, one request per pair."""

    def __init__(self, server: ServerProcess) -> None:
        self._server = server
        self._client_s = 0.0
        self._at_start_s = server.cpu_s_by_process()

    def __call__(self, pairs: Pairs) -> list[float]:
        """One score per pair, all of them asked for at once."""
        started_s = time.process_time()
        scores = asyncio.run(self._ask_all(pairs))
        self._client_s += time.process_time() - started_s
        return scores

    def cpu_time(self) -> float:
        """CPU seconds so far of this process, which is the client, and of the server's."""
        return time.process_time() + self._server.cpu_s()

    def http_share(self) -> float:
        """Of the CPU time of server and client, what went outside the process that runs the model."""
        now_s = self._server.cpu_s_by_process()
        used_s = [now - self._at_start_s.get(process, 0.0) for process, now in now_s.items()]
        total_s = sum(used_s) + self._client_s
        return (total_s - max(used_s)) / total_s

    async def _ask_all(self, pairs: Pairs) -> list[float]:
        url = f"{self._server.url}/predict"
        limits = httpx.Limits(max_connections=64, max_keepalive_connections=64)
        async with httpx.AsyncClient(timeout=None, limits=limits, trust_env=False) as client:

            async def ask(pair: Sequence[int]) -> float:
                reply = await client.post(url, json={"ids": list(pair)})
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
    try:
        python = peer_python("litserve", *LITSERVE)
    except PeerNotInstalled:
        yield None
        return
    with tempfile.TemporaryDirectory() as checkpoint:
        model.save_pretrained(checkpoint)
        port = free_port()
        settings = [checkpoint, str(port), str(threads), str(max_pairs), str(wait_s)]
        command = [python, "-m", "benchmarks.engine.litserve_app", *settings]
        with running(command, port, "/health", stops_within_s=5) as server:
            yield LitServePeer(server)
