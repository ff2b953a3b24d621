"""The loop that sends: on time whatever the server does, and honest about itself where it is not."""

import asyncio
import re
import time
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

import benchmarks.load
from benchmarks.load.generator import Generator
from benchmarks.load.outcomes import Outcome, Record
from benchmarks.load.processes import Run
from benchmarks.load.settings import LoadSettings
from benchmarks.load.summary import Summary, summarise
from benchmarks.load.target import Target
from benchmarks.load.workloads import workload
from tests.benchmarks.servers import RANKING, answers, free_port, serving, target

SMALL: dict[str, Any] = {"workload": {"name": "w4"}, "warmup_s": 0}


def settings_of(**more: Any) -> LoadSettings:
    return LoadSettings.model_validate(SMALL | more)


async def ran(where: Target, settings: LoadSettings, share: int = 0) -> list[Record]:
    records: list[Record] = []
    requests = workload(settings)
    requests.request(0)  # the first one loads the words, which a slow machine takes long for
    generator = Generator(where, settings, requests, records.append, share=share)
    await generator.run(time.monotonic() + 0.1)
    return records


def summary_of(settings: LoadSettings, records: list[Record]) -> Summary:
    return summarise(Run(settings, "r", records=records))


@pytest.mark.parametrize("connections", [1, 1000])
async def test_a_stall_is_felt_by_everyone_who_was_due_in_it(connections: int) -> None:
    """No coordinated omission: whether they wait in the server or in the generator."""
    first_request_s: list[float] = []

    async def stalls_once(_: web.Request) -> web.Response:
        first_request_s.append(time.monotonic())
        since_s = time.monotonic() - first_request_s[0]
        if 0.5 < since_s < 1.5:
            await asyncio.sleep(1.5 - since_s)
        return web.json_response(RANKING)

    settings = settings_of(
        arrivals={"kind": "constant", "rate_per_s": 100},
        duration_s=2,
        client={"connections": connections},
    )
    async with serving(stalls_once) as where:
        records = await ran(where, settings)
    assert len(records) == 200
    slow = [record for record in records if record.latency_s > 0.5]
    assert len(slow) >= 49, "at least those due in the first half of the second"
    summary = summary_of(settings, records)
    assert summary.latency is not None and summary.latency.p90_s > 0.5
    if connections == 1:  # what a generator that waits for answers would have said
        naive = [record for record in records if (record.service_s or 0.0) > 0.5]
        assert len(naive) == 1
        assert any("generator was the bottleneck" in warning for warning in summary.warnings)


async def test_a_slow_server_does_not_slow_the_arrivals() -> None:
    async def slow(_: web.Request) -> web.Response:
        await asyncio.sleep(0.5)
        return web.json_response(RANKING)

    settings = settings_of(arrivals={"kind": "constant", "rate_per_s": 50}, duration_s=1)
    async with serving(slow) as where:
        records = await ran(where, settings)
    assert len(records) == 50
    first_answer_s = min(record.end_s for record in records)
    sent_before_s = sorted(record.sent_s or 0.0 for record in records)
    assert sent_before_s[5] < first_answer_s, "sent on time, not when an answer makes room"
    assert min(record.latency_s for record in records) >= 0.5


async def test_the_generators_own_lateness_is_measured_and_told() -> None:
    settings = settings_of(arrivals={"kind": "constant", "rate_per_s": 100}, duration_s=1)

    async def blocks_the_loop() -> None:
        await asyncio.sleep(0.3)
        time.sleep(0.3)  # noqa: ASYNC251, the point of it

    async with serving(answers) as where:
        blocking = asyncio.create_task(blocks_the_loop())
        records = await ran(where, settings)
        await blocking
    summary = summary_of(settings, records)
    assert summary.lateness is not None and summary.lateness.max_s > 0.25
    assert any("generator was the bottleneck" in warning for warning in summary.warnings)
    assert len(records) == 100, "what was due meanwhile is sent afterwards"


async def test_latency_is_what_the_server_takes() -> None:
    async def known(_: web.Request) -> web.Response:
        await asyncio.sleep(0.1)
        return web.json_response(RANKING)

    settings = settings_of(arrivals={"rate_per_s": 40}, duration_s=2)
    async with serving(known) as where:
        records = await ran(where, settings)
    summary = summary_of(settings, records)
    assert summary.latency is not None and summary.service is not None
    assert 0.1 <= summary.service.p50_s < 0.2
    assert summary.service.p50_s <= summary.latency.p50_s + 0.01 < 0.3
    assert summary.due_per_s == pytest.approx(40, rel=0.4)


async def test_shares_of_the_processes_are_the_whole_and_no_more() -> None:
    settings = settings_of(arrivals={"rate_per_s": 100}, duration_s=0.5, processes=3)
    async with serving(answers) as where:
        shares = [await ran(where, settings, share) for share in range(3)]
        whole = await ran(where, settings.model_copy(update={"processes": 1}))
    together = sorted((record.number, record.at_s) for share in shares for record in share)
    assert together == sorted((record.number, record.at_s) for record in whole)
    assert all(shares)


async def test_a_closed_loop_keeps_so_many_in_flight() -> None:
    now = most = 0

    async def count(_: web.Request) -> web.Response:
        nonlocal now, most
        now += 1
        most = max(most, now)
        await asyncio.sleep(0.05)
        now -= 1
        return web.json_response(RANKING)

    settings = settings_of(arrivals={"kind": "closed", "concurrency": 3}, duration_s=1.0)
    async with serving(count) as where:
        records = await ran(where, settings)
    assert most == 3
    assert 6 <= len(records) <= 63
    assert len({record.number for record in records}) == len(records)


async def test_a_closed_loop_does_not_race_against_a_dead_server() -> None:
    settings = settings_of(arrivals={"kind": "closed", "concurrency": 2}, duration_s=0.5)
    records = await ran(target(free_port()), settings)
    assert {record.outcome for record in records} == {Outcome.CONNECTION_ERROR}
    assert len(records) <= 14


async def test_a_closed_loop_that_is_turned_away_comes_back_when_it_was_told() -> None:
    async def refuses(_: web.Request) -> web.Response:
        return web.json_response({}, status=429, headers={"Retry-After": "1"})

    settings = settings_of(arrivals={"kind": "closed", "concurrency": 2}, duration_s=1.5)
    async with serving(refuses) as where:
        records = await ran(where, settings)
    assert {record.outcome for record in records} == {Outcome.SHED}
    assert len(records) <= 4


@pytest.mark.parametrize("kind", ["poisson", "closed"])
async def test_the_number_of_requests_is_bounded(kind: str) -> None:
    settings = settings_of(arrivals={"kind": kind, "rate_per_s": 500}, max_requests=20, duration_s=30)
    async with serving(answers) as where:
        records = await ran(where, settings)
    assert len(records) == 20


async def test_w5_presses_in_the_background_beside_what_is_measured() -> None:
    settings = settings_of(
        workload={"name": "w5", "background": 2}, arrivals={"rate_per_s": 20}, duration_s=1
    )
    async with serving(answers) as where:
        records = await ran(where, settings)
    background = [record for record in records if record.is_background]
    assert len({record.number for record in background}) == len(background) > 5
    summary = summary_of(settings, records)
    assert summary.due == len(records) - len(background)
    assert summary.background is not None and summary.background.count == len(background)


async def test_w8_hangs_up_and_the_rest_is_answered() -> None:
    async def slow(_: web.Request) -> web.Response:
        await asyncio.sleep(0.2)
        return web.json_response({"answer": "a"})

    settings = settings_of(
        workload={"name": "w8", "hang_up_within_s": 0.1}, arrivals={"rate_per_s": 100}, duration_s=1
    )
    async with serving(slow) as where:
        records = await ran(where, settings)
    summary = summary_of(settings, records)
    assert set(summary.outcomes) == {Outcome.OK, Outcome.HUNG_UP}
    assert summary.judged == summary.due - summary.outcomes[Outcome.HUNG_UP] == summary.good


async def test_cancelled_it_hangs_up_on_what_is_in_flight() -> None:
    come, gone = asyncio.Event(), asyncio.Event()

    async def hang(_: web.Request) -> web.Response:
        come.set()
        try:
            await asyncio.sleep(30)
        except asyncio.CancelledError:
            gone.set()
            raise
        return web.Response()

    settings = settings_of(arrivals={"kind": "constant", "rate_per_s": 10}, duration_s=30)
    async with serving(hang) as where:
        sending = asyncio.create_task(ran(where, settings))
        await asyncio.wait_for(come.wait(), 10)
        sending.cancel()
        await asyncio.wait_for(gone.wait(), 5)
        with pytest.raises(asyncio.CancelledError):
            await sending


def test_no_clock_that_can_be_set_measures_anything() -> None:
    folder = Path(benchmarks.load.__file__).parent
    sources = "".join(path.read_text("utf-8") for path in folder.glob("*.py"))
    assert re.findall(r"time\.time\(|utcnow\(", sources) == []
    assert sources.count("datetime.now(") == 1, "the date of the report"
