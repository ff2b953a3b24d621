"""Gathers the application's metrics from the metrics agent of every node."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterable

import aiohttp
import ray

from deployments.observability.registry import metrics

_DECLARED = frozenset(metric.exported for metric in metrics())
"""Families that are passed on: the application's own, and those of Ray and vLLM that it draws."""

_EVERY_S = 10.0
"""How old a page gets: as old as what Ray's processes, which report so often, have told its agents."""

_ASKED_WITHIN_S = 120.0
"""Who scrapes comes back sooner; after that nothing is gathered until somebody asks again."""

_TIMEOUT = aiohttp.ClientTimeout(total=5)


class GatheredMetrics:
    """The page of the whole application, gathered while somebody scrapes it, not when they do.

    A scrape then costs this replica no more than a page that lies there: the agents, which take a second
    and more on a busy machine, are asked in the background. Only the first scrape waits for them.
    """

    def __init__(
        self,
        gather: Callable[[], Awaitable[str]],
        *,
        every_s: float = _EVERY_S,
        asked_within_s: float = _ASKED_WITHIN_S,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Gathers nothing yet; `clock` gives seconds."""
        self._gather = gather
        self._clock = clock
        self._every_s = every_s
        self._asked_within_s = asked_within_s
        self._asked_at_s = 0.0
        self._page: asyncio.Future[str] | None = None
        self._keeping: asyncio.Task[None] | None = None

    async def page(self) -> str:
        """Metrics as Prometheus text, at most `every_s` and the time of one gathering old."""
        self._asked_at_s = self._clock()
        if self._page is None or self._keeping is None or self._keeping.done():
            self._page = asyncio.ensure_future(self._gather())
            self._keeping = asyncio.create_task(self._keep_fresh(self._page))
            # where it fails the next who asks gathers anew, and is told
            self._keeping.add_done_callback(lambda done: done.cancelled() or done.exception())
        return await asyncio.shield(self._page)

    async def _keep_fresh(self, first: "asyncio.Future[str]") -> None:
        await first
        while True:
            await asyncio.sleep(self._every_s)
            if self._clock() - self._asked_at_s > self._asked_within_s:
                return
            page = asyncio.ensure_future(self._gather())
            await page
            self._page = page


async def gather_metrics() -> str:
    """All metrics of the application as Prometheus text; a node that does not answer is left out."""
    nodes = await asyncio.to_thread(ray.nodes)
    urls = [
        f"http://{node['NodeManagerAddress']}:{node['MetricsExportPort']}/metrics"
        for node in nodes
        if node["Alive"]
    ]
    async with aiohttp.ClientSession(timeout=_TIMEOUT) as session:
        pages = await asyncio.gather(*(_page(session, url) for url in urls))
    return merged(pages)


def merged(pages: Iterable[str]) -> str:
    """One exposition of several, each family once, only what is declared.

    Lines are passed on as they are: a node's page is mostly Ray's own, and reading all of it as numbers
    would take longer than everything else.
    """
    families: dict[str, list[str]] = {}
    for page in pages:
        name, family, is_new = "", None, False
        for line in page.splitlines():
            if line.startswith("#"):
                of = line.split(" ", 3)[2]
                if of != name:
                    name, is_new = of, of not in families
                    family = families.setdefault(name, []) if name in _DECLARED else None
                if not is_new:
                    continue
            if family is not None and line:
                family.append(line)
    return "".join(f"{line}\n" for lines in families.values() for line in lines)


async def _page(session: aiohttp.ClientSession, url: str) -> str:
    try:
        async with session.get(url) as response:
            return await response.text() if response.status == 200 else ""
    except (aiohttp.ClientError, TimeoutError):
        return ""
