"""A proxy before a wiki: it keeps its clients' connections, as Wikimedia's front does.

PHP's own server ends each answer by closing the connection; what a client then spends on connecting
again is no part of what a search costs it.
"""

from collections.abc import ItemsView

from aiohttp import ClientSession, web
from yarl import URL

_HOP_BY_HOP = {"connection", "content-length", "date", "host", "transfer-encoding"}


def front(wiki: str) -> web.Application:
    """Answers every request as the server at this origin does."""
    app = web.Application()

    async def passed_on(request: web.Request) -> web.Response:
        async with (
            ClientSession(auto_decompress=False) as session,
            session.request(
                request.method,
                URL(f"{wiki}{request.raw_path}", encoded=True),
                headers=_end_to_end(request.headers.items()),
                data=await request.read(),
                allow_redirects=False,
            ) as reply,
        ):
            body, headers = await reply.read(), _end_to_end(reply.headers.items())
            return web.Response(status=reply.status, body=body, headers=headers)

    app.router.add_route("*", "/{path:.*}", passed_on)
    return app


def _end_to_end(headers: ItemsView[str, str]) -> dict[str, str]:
    return {name: value for name, value in headers if name.lower() not in _HOP_BY_HOP}
