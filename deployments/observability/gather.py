"""Gathers the application's metrics from the metrics agent of every node."""

import asyncio
from collections.abc import Iterable, Iterator

import aiohttp
import ray
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.metrics_core import Metric
from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.registry import Collector

from deployments.observability.registry import metrics

_DECLARED = frozenset(metric.exported.removesuffix("_total") for metric in metrics())
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
    return await asyncio.to_thread(merged, pages)


def merged(pages: Iterable[str]) -> str:
    """One exposition of several, each family once, only the application's own."""
    registry = CollectorRegistry()
    registry.register(_Families(pages))
    return generate_latest(registry).decode()


async def _page(session: aiohttp.ClientSession, url: str) -> str:
    try:
        async with session.get(url) as response:
            return await response.text() if response.status == 200 else ""
    except (aiohttp.ClientError, TimeoutError):
        return ""


class _Families(Collector):
    def __init__(self, pages: Iterable[str]) -> None:
        self._families: dict[str, Metric] = {}
        for page in pages:
            for family in text_string_to_metric_families(page):
                if family.name not in _DECLARED:
                    continue
                known = self._families.setdefault(family.name, family)
                if known is not family:
                    known.samples.extend(family.samples)

    def collect(self) -> Iterator[Metric]:
        return iter(self._families.values())
