"""The server of known capacity: nobody is served before those ahead."""

import asyncio
import time

from aiohttp.test_utils import TestClient, TestServer

from benchmarks.load.replies import read_answer, read_ranking
from benchmarks.load.timed_server import TimedServer


async def test_requests_wait_for_each_other_and_are_answered_on_every_route() -> None:
    async with TestClient(TestServer(TimedServer(0.05).app())) as client:

        async def ask(path: str) -> bytes:
            async with client.post(path, json={}) as reply:
                return await reply.read()

        started_s = time.monotonic()
        replies = await asyncio.gather(
            *(ask(path) for path in ("/v1/answer", "/v1/rerank", "/v1/rerank"))
        )
        assert time.monotonic() - started_s >= 0.15
    assert read_answer(replies[0]).outcome.is_answered and read_ranking(replies[1]).outcome.is_answered
