"""What the commands `overload` and `cancellation` make of what they saw."""

from pathlib import Path

import pytest
from aiohttp import web

from benchmarks.cancellation.command import Left, Stopped
from benchmarks.cancellation.command import markdown as cancellation_markdown
from benchmarks.cancellation.hanging_up import Notes
from benchmarks.cancellation.slow_app import BEGUN, CANCELLED, ENDED
from benchmarks.load.outcomes import Outcome, Record
from benchmarks.overload.coming_back import Returns, coming_back
from benchmarks.overload.command import Overload, markdown
from benchmarks.overload.phases import goodput_per_s, recovered_s, shares
from tests.benchmarks.servers import serving


def record(at_s: float, outcome: Outcome) -> Record:
    return Record(0, "answer", False, at_s, at_s, at_s + 0.1, outcome)


def test_goodput_counts_whole_answers_and_recovery_ends_with_the_last_failure() -> None:
    records = [
        record(0.5, Outcome.OK),
        record(1.0, Outcome.SHED),
        record(4.0, Outcome.CLIENT_TIMEOUT),
        record(6.0, Outcome.DEGRADED),
    ]
    assert goodput_per_s(records, 4.0) == 0.5
    assert recovered_s(records) == 4.0
    assert recovered_s(records[:1]) == 0.0
    assert shares(records) == {"ok": 0.25, "degraded": 0.25, "shed": 0.25, "client_timeout": 0.25}


def measured(**changes: object) -> Overload:
    well = {
        "engine": "timed",
        "tells_deadline": True,
        "idle_p50_s": 0.5,
        "patience_s": 1.5,
        "peak_per_s": 10.0,
        "offered_per_s": 30.0,
        "goodput_per_s": 9.0,
        "outcomes": {"ok": 0.3, "shed": 0.7},
        "recovered_s": 2.0,
        "resident_mib_before": 1000.0,
        "resident_mib_after": 1005.0,
        "returns": Returns(10, 10, 9, 5.0, 12.0, 10.0),
    }
    return Overload(**(well | changes))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("changes", "broken"),
    [
        ({}, None),
        ({"goodput_per_s": 8.0}, "goodput is 85 % of the peak"),
        ({"recovered_s": 12.0}, "all is well within 10 s after it"),
        ({"resident_mib_after": 1100.0}, "memory does not grow"),
        (
            {"returns": Returns(10, 10, 4, 5.0, 12.0, 10.0)},
            "Retry-After is right within a factor of 2",
        ),
        (
            {"returns": Returns(10, 10, 9, 5.0, 30.0, 10.0)},
            "Retry-After is right within a factor of 2",
        ),
    ],
)
def test_each_promise_is_held_against_its_figure(changes: dict[str, object], broken: str | None) -> None:
    overload = measured(**changes)
    assert [name for name, kept in overload.promises.items() if not kept] == ([broken] if broken else [])
    assert ("broken" in markdown(overload)) == (broken is not None)


async def test_who_is_refused_comes_back_once_and_not_before() -> None:
    seen = 0

    async def busy_at_first(request: web.Request) -> web.Response:
        nonlocal seen
        seen += 1
        await request.read()
        if seen <= 3:
            return web.json_response({}, status=429, headers={"Retry-After": "1"})
        return web.json_response({})

    async with serving(busy_at_first) as where:
        returns = await coming_back(where.url, 4.0, 1.0, b"{}")
    assert (returns.admitted, returns.refused, returns.found_room) == (5, 3, 3)
    assert returns.longest_told_s == 1.0 <= returns.all_done_s
    assert seen == 11


def test_notes_tell_what_is_still_open(tmp_path: Path) -> None:
    notes = Notes(tmp_path / "notes")
    lines = [("search", BEGUN, "a"), ("search", CANCELLED, "a"), ("stream", BEGUN, "b")]
    written = "".join(f"{n}.5 {moment} {event} {who}\n" for n, (moment, event, who) in enumerate(lines))
    (tmp_path / "notes").write_text(written)
    assert notes.when("search", CANCELLED, "a") == 1.5
    assert notes.open_moments() == {"stream": 1}
    (tmp_path / "notes").write_text(f"{written}9.0 stream {ENDED} b\n")
    assert notes.open_moments() == {}


def test_a_report_of_hang_ups_names_what_was_left() -> None:
    report = cancellation_markdown(
        [Stopped("search", True, 12.0, 20.0)], Left(1000, {"stream": 2}, 0.1, 200)
    )
    assert "| search | yes | 12 | 20 |" in report
    assert "2 stream left running" in report
