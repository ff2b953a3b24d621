"""A stand-in for Wikipedia that all nodes ask, and that counts what they ask together."""

import asyncio
import threading
import time
from bisect import bisect_left
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web

from benchmarks.load.wikipedia_stub import WikipediaStub

LIMIT_PER_MINUTE = 20
_MINUTE_S = 60.0


@dataclass
class CountedWiki:
    """Where it is, and when it was asked."""

    port: int = 0
    asked_s: list[float] = field(default_factory=list)
    in_flight: int = 0
    most_in_flight: int = 0

    def settings(self) -> dict[str, Any]:
        """A searcher's settings for it, with a budget that this load exceeds."""
        return {
            "api_url": f"http://127.0.0.1:{self.port}/w/api.php",
            "budget": {"requests_per_minute": LIMIT_PER_MINUTE, "burst": 3, "max_in_flight": 3},
        }

    @property
    def busiest_minute(self) -> int:
        """Requests in the sixty seconds that had most of them."""
        asked_s = self.asked_s
        return max(
            (bisect_left(asked_s, at_s + _MINUTE_S) - first for first, at_s in enumerate(asked_s)),
            default=0,
        )


@contextmanager
def counted_wiki() -> Iterator[CountedWiki]:
    """The wiki on a free port of loopback, from a thread of this process, until the block ends."""
    wiki, ready, over = CountedWiki(), threading.Event(), threading.Event()
    thread = threading.Thread(target=lambda: asyncio.run(_serve(wiki, ready, over)))
    thread.start()
    ready.wait()
    try:
        yield wiki
    finally:
        over.set()
        thread.join()


async def _serve(wiki: CountedWiki, ready: threading.Event, over: threading.Event) -> None:
    stub = WikipediaStub(
        median_s=0.1, sigma=0.5, stall_share=0.0, stall_s=0.0, refusal_share=0.0, seed=0
    )

    @web.middleware
    async def counting(request: web.Request, handler: Any) -> web.StreamResponse:
        wiki.asked_s.append(time.monotonic())
        wiki.in_flight += 1
        wiki.most_in_flight = max(wiki.most_in_flight, wiki.in_flight)
        try:
            response: web.StreamResponse = await handler(request)
            return response
        finally:
            wiki.in_flight -= 1

    app = stub.app()
    app.middlewares.append(counting)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    wiki.port = runner.addresses[0][1]
    ready.set()
    await asyncio.to_thread(over.wait)
    await runner.cleanup()
