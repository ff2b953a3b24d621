"""Servers of known behaviour: on the test's own loop, or on a thread beside it."""

import asyncio
import json
import socket
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any

from aiohttp import web

from benchmarks.load.target import Target

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]
Talk = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]

ANSWER: dict[str, Any] = {
    "id": "a", "answer": "Blackburn.", "pipeline": "crag", "action": "correct",
    "evidence_quality": "strong", "degraded": [], "citations": [],
    "usage": {"prompt_tokens": 9, "completion_tokens": 3},
    "trace": {
        "stages": [
            {"stage": "retrieve", "started_s": 0.0, "seconds": 0.001},
            {"stage": "generate", "started_s": 0.001, "seconds": 0.002},
        ]
    },
}  # fmt: skip
EXPLANATION = {"score": 1.5, "base_value": 1.0, "tokens": [{"value": 0.5}]}
RANKING = {"results": [{"index": 0, "relevance_score": 1.5}]}


def target(port: int) -> Target:
    """Loopback at a port, resolved."""
    return Target("http", "127.0.0.1", port, "", "127.0.0.1")


def free_port() -> int:
    """A port nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


async def answers(_: web.Request) -> web.Response:
    """Answers whatever is asked, at once."""
    return web.json_response(RANKING | ANSWER | EXPLANATION)


async def is_ready(_: web.Request) -> web.Response:
    """Says so."""
    return web.json_response({"ready": True})


def app_of(handler: Handler, ready: Handler = is_ready) -> web.Application:
    """An application whose every POST is one handler's."""
    app = web.Application()
    app.router.add_get("/livez", is_ready)
    app.router.add_get("/readyz", ready)
    app.router.add_post("/{path:.*}", handler)
    return app


@asynccontextmanager
async def serving(handler: Handler) -> AsyncIterator[Target]:
    """On the running loop."""
    runner = web.AppRunner(app_of(handler), access_log=None, handler_cancellation=True)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0, shutdown_timeout=0.1)
    await site.start()
    try:
        yield target(runner.addresses[0][1])
    finally:
        await runner.cleanup()


@asynccontextmanager
async def talking(talk: Talk) -> AsyncIterator[Target]:
    """Bare bytes on the running loop."""
    server = await asyncio.start_server(talk, "127.0.0.1", 0)
    try:
        yield target(server.sockets[0].getsockname()[1])
    finally:
        server.close()


async def read_request(reader: asyncio.StreamReader) -> bytes:
    """The body of one request."""
    head = await reader.readuntil(b"\r\n\r\n")
    length = next(
        int(line.split(b":")[1])
        for line in head.lower().split(b"\r\n")
        if line.startswith(b"content-length:")
    )
    return await reader.readexactly(length)


@contextmanager
def serving_on_thread(
    handler: Handler, *, after_s: float = 0.0, port: int = 0, ready: Handler = is_ready
) -> Iterator[int]:
    """On a thread of its own; yields the port, at once even where it starts later."""
    port = port or free_port()
    loop = asyncio.new_event_loop()
    stop, is_up = asyncio.Event(), threading.Event()

    async def serve() -> None:
        await asyncio.sleep(after_s)
        runner = web.AppRunner(app_of(handler, ready), access_log=None, handler_cancellation=True)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", port, shutdown_timeout=0.1).start()
        is_up.set()
        await stop.wait()
        await runner.cleanup()

    thread = threading.Thread(target=loop.run_until_complete, args=(serve(),))
    thread.start()
    try:
        if not after_s:
            assert is_up.wait(10)
        yield port
    finally:
        loop.call_soon_threadsafe(stop.set)
        thread.join(10)
        loop.close()


def chunk(content: str = "", finish: str | None = None, **more: Any) -> bytes:
    """One event of a streamed completion."""
    choice = {"index": 0, "delta": {"content": content} if content else {}, "finish_reason": finish}
    return b"data: " + json.dumps({"choices": [choice], **more}).encode() + b"\n\n"


DONE = b"data: [DONE]\n\n"
