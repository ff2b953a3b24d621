"""The command `cancellation`."""

import json
import os
import random
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from typing import Annotated

import httpx
import typer
from rich.console import Console

from benchmarks.cancellation.hanging_up import (
    Notes,
    asking,
    stopped_after_s,
    stopped_in_queue_after_s,
)
from benchmarks.cancellation.slow_app import NOTES
from benchmarks.report import table
from benchmarks.served_application import read_config, served

_MOMENTS = ("retrieve", "evaluate", "search", "first_token", "stream")
_WITHIN_S = 0.2
_AT_ONCE = 16
_LONGEST_S = 0.5
_SETTLED_S = 20.0


@dataclass(frozen=True, slots=True)
class Stopped:
    """How soon the work of hung-up clients was cancelled, in one moment of an answer."""

    moment: str
    is_streamed: bool
    median_ms: float
    longest_ms: float


@dataclass(frozen=True, slots=True)
class Left:
    """What many hang-ups left behind: work by moment, requests admitted, and the next answer's time."""

    hang_ups: int
    open_moments: dict[str, int]
    next_answer_s: float
    next_status: int


def cancellation(
    config: Annotated[Path, typer.Option(help="Serve config file to take all but the leaves from.")] = (
        Path("configs/embedded.yaml")
    ),
    repeats: Annotated[int, typer.Option(help="Hang-ups in each moment.", min=1)] = 10,
    hang_ups: Annotated[int, typer.Option(help="Hang-ups at random moments after those.")] = 1_000,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Hang up at every moment of an answer: what stops, and how soon; exit 1 when something does not."""
    err = Console(stderr=True)
    content = read_config(config)
    (application,) = content["applications"]
    application["import_path"] = "benchmarks.cancellation.slow_app:build_app"
    for setting, names in {
        "compact": ("CompactGraph", "AtomicQARetriever", "HopReader"),
        "explain": ("ExplainGraph",),
    }.items():
        application["args"].pop(setting, None)
        application["deployments"] = [d for d in application["deployments"] if d["name"] not in names]
    application["args"]["crag"]["speculation"] = {"strips": False, "search": False}
    with tempfile.TemporaryDirectory(prefix="cancellation-") as folder:
        notes = Notes(Path(folder, "notes"))
        environment = application["runtime_env"]["env_vars"]
        environment[NOTES] = str(Path(folder, "notes"))
        with served(content, {NOTES: os.fspath(Path(folder, "notes"))}) as server:
            stopped = _matrix(notes, server.url, repeats, err)
            err.print(f"{hang_ups} hang-ups at random moments", highlight=False)
            left = _many(notes, server.url, hang_ups)
    if as_json:
        print(
            json.dumps({"stopped": [asdict(each) for each in stopped], "left": asdict(left)}, indent=1)
        )
    else:
        print(markdown(stopped, left))
    is_well = all(each.longest_ms <= 1000 * _WITHIN_S for each in stopped)
    if not (is_well and left.next_status == httpx.codes.OK and not left.open_moments):
        raise typer.Exit(1)


def markdown(stopped: list[Stopped], left: Left) -> str:
    """The matrix, and what is left."""
    rows = [
        [
            each.moment,
            "yes" if each.is_streamed else "no",
            f"{each.median_ms:.0f}",
            f"{each.longest_ms:.0f}",
        ]
        for each in stopped
    ]
    held = ", ".join(f"{count} {moment}" for moment, count in left.open_moments.items()) or "nothing"
    return "\n\n".join(
        [
            "## Hang-ups, by the moment of the answer",
            table(["moment", "streamed", "median ms until cancelled", "longest"], rows),
            f"After {left.hang_ups} more at random moments: {held} left running; the next answer took "
            f"{left.next_answer_s:.2f} s ({left.next_status}).",
        ]
    )


def _matrix(notes: Notes, url: str, repeats: int, err: Console) -> list[Stopped]:
    found = []
    for is_streamed in (False, True):
        for moment in ("queue", *_MOMENTS):
            took_s = []
            for _ in range(repeats):
                notes.forget()
                if moment == "queue":
                    took_s.append(stopped_in_queue_after_s(notes, url, is_streamed=is_streamed))
                else:
                    took_s.append(stopped_after_s(notes, url, moment, is_streamed=is_streamed))
            found.append(Stopped(moment, is_streamed, 1000 * median(took_s), 1000 * max(took_s)))
            err.print(f"{moment}: {found[-1].longest_ms:.0f} ms at the longest", highlight=False)
    return found


def _many(notes: Notes, url: str, hang_ups: int) -> Left:
    notes.forget()
    random_ = random.Random(0)
    plans = [
        (random_.choice([*_MOMENTS, "nowhere"]), random_.random() < 0.5, random_.random() * _LONGEST_S)
        for _ in range(hang_ups)
    ]

    def hang_up(plan: tuple[str, bool, float]) -> None:
        words, is_streamed, after_s = plan
        with asking(url, words, is_streamed=is_streamed):
            time.sleep(after_s)

    with ThreadPoolExecutor(_AT_ONCE) as pool:
        list(pool.map(hang_up, plans))
    give_up_s = time.monotonic() + _SETTLED_S
    while notes.open_moments() and time.monotonic() < give_up_s:
        time.sleep(0.1)
    started_s = time.monotonic()
    reply = httpx.post(f"{url}/v1/answer", json={"question": "Who built it?"}, timeout=60)
    return Left(hang_ups, notes.open_moments(), time.monotonic() - started_s, reply.status_code)
