import asyncio

import pytest

from benchmarks.simulated_time import run_simulated
from deployments.observability.gather import GatheredMetrics, merged

PAGE = """# HELP ray_crag_answers_total Answers.
# TYPE ray_crag_answers_total counter
ray_crag_answers_total{{outcome="ok",WorkerId="{worker}"}} {value}
# HELP ray_node_disk_usage Disk.
# TYPE ray_node_disk_usage gauge
ray_node_disk_usage 5.0
"""


def test_pages_of_several_nodes_become_one_with_each_family_once() -> None:
    page = merged([PAGE.format(worker="a", value=1), PAGE.format(worker="b", value=2), ""])
    assert page.count("# TYPE ray_crag_answers_total counter") == 1
    assert page.count('outcome="ok"') == 2
    assert "ray_node_disk_usage" not in page


def test_a_page_is_gathered_in_the_background_while_somebody_asks_for_it() -> None:
    gathered = 0

    async def gather() -> str:
        nonlocal gathered
        gathered += 1
        await asyncio.sleep(1.0)  # busy agents
        return f"page {gathered}"

    async def main() -> None:
        clock = asyncio.get_running_loop().time
        pages = GatheredMetrics(gather, every_s=5.0, asked_within_s=60.0, clock=clock)
        assert await asyncio.gather(pages.page(), pages.page()) == ["page 1"] * 2
        await asyncio.sleep(29.5)
        asked_s = clock()
        assert await pages.page() == "page 5"
        assert clock() == asked_s, "a scrape waits for no agent"
        await asyncio.sleep(3600.0)
        assert gathered < 20, "nobody has asked for an hour"
        assert await pages.page() == f"page {gathered}"
        assert clock() == asked_s + 3601.0, "what is old is not given out"

    run_simulated(main())


def test_a_page_that_cannot_be_gathered_is_gathered_for_the_next_who_asks() -> None:
    outages = iter([RuntimeError("no cluster"), None, RuntimeError("no cluster"), None])

    async def gather() -> str:
        if outage := next(outages):
            raise outage
        return "page"

    async def main() -> None:
        pages = GatheredMetrics(gather, every_s=5.0, asked_within_s=60.0)
        with pytest.raises(RuntimeError, match="no cluster"):
            await pages.page()
        assert await pages.page() == "page"
        await asyncio.sleep(6.0)  # the background fails
        assert await pages.page() == "page"

    run_simulated(main())
