"""A stand-in for Wikipedia that is as slow and as moody as asked, for W6: the real one is not loaded."""

import asyncio
import random
from typing import Annotated

import typer
from aiohttp import web

from benchmarks.load import texts

_MAX_PAGES = 20


class WikipediaStub:
    """Has a page for every title and every search; the n-th request always fares the same."""

    def __init__(
        self,
        *,
        median_s: float,
        sigma: float,
        stall_share: float,
        stall_s: float,
        refusal_share: float,
        seed: int,
    ) -> None:
        """Delays are log-normal; of the shares some stall for `stall_s`, some are refused with 429."""
        self._median_s, self._sigma = median_s, sigma
        self._stall_share, self._stall_s, self._refusal_share = stall_share, stall_s, refusal_share
        self._seed = seed
        self._requests = 0

    def app(self) -> web.Application:
        """The application."""
        app = web.Application()
        app.router.add_get("/w/api.php", self._search)
        return app

    async def _search(self, request: web.Request) -> web.Response:
        random_ = random.Random(f"wikipedia/{self._seed}/{self._requests}")
        self._requests += 1
        fate = random_.random()
        if fate < self._refusal_share:
            return web.Response(status=429, headers={"Retry-After": "1"}, text="slow down")
        if fate < self._refusal_share + self._stall_share:
            await asyncio.sleep(self._stall_s)
        await asyncio.sleep(self._median_s * random_.lognormvariate(0.0, self._sigma))
        pages = [_page(random_, n, title) for n, title in enumerate(_titles(request))]
        return web.json_response({"query": {"pages": pages}})


def wikipedia_stub(
    port: Annotated[int, typer.Option(help="On loopback; 0: a free one.", min=0, max=65535)] = 0,
    median_s: Annotated[float, typer.Option(help="Median delay.", min=0)] = 0.12,
    sigma: Annotated[float, typer.Option(help="Spread of the delay's logarithm.", min=0)] = 0.6,
    stall_share: Annotated[float, typer.Option(help="Share that stalls.", min=0, max=1)] = 0.01,
    stall_s: Annotated[float, typer.Option(help="How long those stall.", min=0)] = 20.0,
    refusal_share: Annotated[float, typer.Option(help="Share refused with 429.", min=0, max=1)] = 0.01,
    seed: Annotated[int, typer.Option(help="Of delays and pages.")] = 0,
) -> None:
    """Serve a stand-in for Wikipedia's API on loopback until Ctrl-C, for the searcher under W6."""
    stub = WikipediaStub(
        median_s=median_s,
        sigma=sigma,
        stall_share=stall_share,
        stall_s=stall_s,
        refusal_share=refusal_share,
        seed=seed,
    )
    asyncio.run(serve_until_stopped(stub.app(), port, "api_url", "/w/api.php"))


async def serve_until_stopped(app: web.Application, port: int, what: str, path: str) -> None:
    """Serve on a port of loopback, say under which address, and end with Ctrl-C."""
    runner = web.AppRunner(app, access_log=None, handle_signals=True)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", port).start()
        print(f"{what}: http://127.0.0.1:{runner.addresses[0][1]}{path}", flush=True)
        await asyncio.Event().wait()
    except web.GracefulExit:
        pass
    finally:
        await runner.cleanup()


def _titles(request: web.Request) -> list[str]:
    """The titles looked up, or as many as a search may find."""
    if "titles" in request.query:
        return request.query["titles"].split("|")[:_MAX_PAGES]
    asked = request.query.get("gsrlimit", "")
    pages = min(int(asked) if asked.isdecimal() else 5, _MAX_PAGES)
    return [f"{request.query.get('gsrsearch', 'Page')} {n}" for n in range(1, pages + 1)]


def _page(random_: random.Random, index: int, title: str) -> dict[str, object]:
    number = random_.randrange(1, 10**8)
    return {
        "pageid": number,
        "ns": 0,
        "title": title,
        "index": index + 1,
        "extract": f"{title}: {texts.biography(random_)}",
        "lastrevid": number,
        "canonicalurl": f"http://127.0.0.1/wiki/{number}",
    }
