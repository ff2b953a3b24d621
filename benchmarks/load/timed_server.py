"""A server whose capacity is known, to see that `load` finds it: one request at a time, each as long."""

import asyncio
from typing import Annotated

import typer
from aiohttp import web

from benchmarks.load.wikipedia_stub import serve_until_stopped

_ANSWER = {"answer": "Yes.", "pipeline": "crag", "action": "correct", "degraded": [], "citations": []}
_REPLY = {**_ANSWER, "results": [{"index": 0, "relevance_score": 1.0}]}


class TimedServer:
    """Takes `service_s` seconds for a request, and the next one only then."""

    def __init__(self, service_s: float) -> None:
        self._service_s = service_s
        self._free_at_s = 0.0

    def app(self) -> web.Application:
        """The application: every route is as slow."""
        app = web.Application()
        app.router.add_post("/{path:.*}", self._answer)
        return app

    async def _answer(self, _: web.Request) -> web.Response:
        now_s = asyncio.get_running_loop().time()
        self._free_at_s = max(self._free_at_s, now_s) + self._service_s
        await asyncio.sleep(self._free_at_s - now_s)
        return web.json_response(_REPLY)


def timed_server(
    port: Annotated[int, typer.Option(help="On loopback; 0: a free one.", min=0, max=65535)] = 0,
    service_s: Annotated[float, typer.Option(help="Seconds a request takes.", min=0.001)] = 0.05,
) -> None:
    """Serve one request at a time on loopback until Ctrl-C, each for so long."""
    asyncio.run(serve_until_stopped(TimedServer(service_s).app(), port, "server", ""))
