"""Clients that misuse their connection, against the HTTP server that Ray's proxy runs: uvicorn."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
import uvicorn

from deployments.settings import ApiSettings
from tests.deployments.application import QUESTION, Application

BODY = json.dumps({"question": QUESTION}).encode()
POST = b"POST /v1/answer HTTP/1.1\r\nHost: crag\r\nContent-Type: application/json\r\n"


@asynccontextmanager
async def serving(application: Application) -> AsyncIterator[int]:
    """The application's port while it is served."""
    config = uvicorn.Config(application.api(), port=0, lifespan="off", log_config=None)
    server = uvicorn.Server(config)
    server.install_signal_handlers = lambda: None  # type: ignore[attr-defined]
    running = asyncio.ensure_future(server.serve())
    async with asyncio.timeout(30):
        while not server.started:  # noqa: ASYNC110  # uvicorn has no event for it
            await asyncio.sleep(0.01)
    try:
        yield server.servers[0].sockets[0].getsockname()[1]
    finally:
        server.should_exit = server.force_exit = True
        await asyncio.wait_for(running, 30)


async def asked(port: int) -> bytes:
    """The reply to a client that behaves."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(POST + b"Connection: close\r\nContent-Length: %d\r\n\r\n" % len(BODY) + BODY)
    reply = await asyncio.wait_for(reader.read(), 30)
    writer.close()
    return reply


async def test_bodies_that_trickle_in_are_ended_and_hold_up_nobody() -> None:
    application = Application(settings=ApiSettings(max_body_s=0.5))
    trickles = 50

    async def trickle(port: int) -> bytes:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(POST + b"Content-Length: 1000\r\n\r\n")
        reply = asyncio.ensure_future(reader.readline())
        while not reply.done():
            writer.write(b" ")
            await asyncio.wait([reply], timeout=0.05)
        writer.close()
        try:
            return reply.result()
        except ConnectionResetError:  # it wrote on while it was being answered
            return b""

    async with serving(application) as port:
        slow = [asyncio.ensure_future(trickle(port)) for _ in range(trickles)]
        assert b" 200 OK" in await asked(port)
        replies = await asyncio.wait_for(asyncio.gather(*slow), 60)
    ended = [reply for reply in replies if reply]
    assert ended and all(b" 408 " in reply for reply in ended)
    assert application.observer.outcomes.count("body_too_slow") == trickles


async def test_a_client_that_sends_half_a_body_and_goes_leaves_nothing_behind() -> None:
    application = Application()
    async with serving(application) as port:
        for _ in range(20):
            _, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(POST + b"Content-Length: 1000\r\n\r\n{")
            await writer.drain()
            writer.close()
        assert b" 200 OK" in await asked(port)
        async with asyncio.timeout(30):
            while len(application.observer.outcomes) < 21:  # noqa: ASYNC110
                await asyncio.sleep(0.01)
    assert sorted(set(application.observer.outcomes)) == ["client_gone", "ok"]


async def test_a_half_closed_connection_ends_its_request_and_no_other() -> None:
    application = Application()
    application.retriever.delay_s = 0.2
    async with serving(application) as port:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(POST + b"Content-Length: %d\r\n\r\n" % len(BODY) + BODY)
        writer.write_eof()
        reply = await asyncio.wait_for(reader.read(), 30)
        assert reply == b"" or b" 200 OK" in reply
        assert b" 200 OK" in await asked(port)


@pytest.mark.parametrize(
    ("header", "status"),
    [(b"X-Large: " + b"x" * 70_000, b" 431 "), (b"X-Fine: " + b"x" * 7_000, b" 200 ")],
)
async def test_headers_are_bounded(header: bytes, status: bytes) -> None:
    async with serving(Application()) as port:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        length = b"Connection: close\r\nContent-Length: %d\r\n\r\n" % len(BODY)
        writer.write(POST + header + b"\r\n" + length + BODY)
        assert status in await asyncio.wait_for(reader.readline(), 30)
        writer.close()


async def test_a_compressed_bomb_is_not_unpacked() -> None:
    import gzip

    bomb = gzip.compress(b" " * 50_000_000)
    async with serving(Application()) as port:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        length = b"Content-Encoding: gzip\r\nConnection: close\r\nContent-Length: %d\r\n\r\n" % len(bomb)
        writer.write(POST + length + bomb)
        assert b" 415 " in await asyncio.wait_for(reader.readline(), 30)
        writer.close()
