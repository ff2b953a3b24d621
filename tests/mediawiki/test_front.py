"""The front keeps connections before a server that closes each; no wiki is needed for it."""

from collections.abc import AsyncIterator

import pytest
from aiohttp import ClientSession, TCPConnector, web
from aiohttp.test_utils import TestServer

from tests.mediawiki.front import front


@pytest.fixture
async def address() -> AsyncIterator[str]:
    """A front before a server that tells what it was asked, and closes the connection."""

    async def tell(request: web.Request) -> web.Response:
        told = f"{request.raw_path} by {request.headers['User-Agent']}"
        reply = web.Response(status=203, text=told, headers={"X-Kept": "yes"})
        reply.force_close()
        return reply

    app = web.Application()
    app.router.add_route("*", "/{path:.*}", tell)
    async with (
        TestServer(app) as closing,
        TestServer(front(str(closing.make_url("")).rstrip("/"))) as it,
    ):
        yield str(it.make_url(""))


async def test_what_is_asked_and_answered_passes_on_one_connection(address: str) -> None:
    connector = TCPConnector(limit=1)
    async with ClientSession(address, connector=connector, headers={"User-Agent": "me"}) as session:
        for _ in range(2):
            async with session.get("/w/api.php?titles=A%7CB") as reply:
                assert (reply.status, reply.headers["X-Kept"]) == (203, "yes")
                assert await reply.text() == "/w/api.php?titles=A%7CB by me"
                assert not reply.headers.get("Connection") and reply.version is not None
        assert sum(map(len, connector._conns.values())) == 1, "the connection waits for another request"
