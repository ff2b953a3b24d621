"""The tail: alone, and at a share of what a closed loop gets answered."""

import asyncio
import json
from pathlib import Path
from typing import Any

from aiohttp import web
from typer import Typer
from typer.testing import CliRunner

from benchmarks.load.tail import tail
from tests.benchmarks.servers import ANSWER, RANKING, serving_on_thread


def test_waiting_for_others_is_what_the_ratio_shows(tmp_path: Path) -> None:
    """One request at a time, 10 ms each: alone nobody waits, at 90 % of the capacity nearly all do."""
    free_at_s = 0.0

    async def one_at_a_time(_: web.Request) -> web.Response:
        nonlocal free_at_s
        now_s = asyncio.get_running_loop().time()
        free_at_s = max(free_at_s, now_s) + 0.01
        await asyncio.sleep(free_at_s - now_s)
        return web.json_response(ANSWER | RANKING)

    app = Typer()
    app.command()(tail)
    with serving_on_thread(one_at_a_time) as port:
        result: Any = CliRunner().invoke(
            app,
            ["--url", f"http://127.0.0.1:{port}", "--workload", "w4", "--seconds", "2", "--alone", "20",
             "--repeats", "1", "--share", "0.9", "--json", "--out", str(tmp_path)],
        )  # fmt: skip
    assert result.exit_code == 0, result.output
    measured = json.loads((tmp_path / "tail.json").read_text("utf-8"))
    (repeat,) = measured["repeats"]
    assert 20 < repeat["capacity_per_s"] <= 101
    assert repeat["alone"]["count"] == 20 and repeat["alone"]["p50_s"] >= 0.01
    assert repeat["loaded"]["p50_s"] > repeat["alone"]["p50_s"]
    assert "at 90 % of the capacity" in (tmp_path / "tail.md").read_text("utf-8")
