"""Gathers the application's metrics from the metrics agent of every node."""

import asyncio
from collections.abc import Iterable

import aiohttp
import ray

from deployments.observability.registry import metrics

_DECLARED = frozenset(metric.exported for metric in metrics())
"""Families that are passed on: the application's own, and those of Ray and vLLM that it draws."""

_TIMEOUT = aiohttp.ClientTimeout(total=5)


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
