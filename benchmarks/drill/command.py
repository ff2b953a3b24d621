"""The command `drill`: scenes under load, with every failed request counted."""

import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from benchmarks.drill.scene import Scene

if TYPE_CHECKING:
    from benchmarks.drill.playing import Drilled


def drill(
    config: Annotated[Path, typer.Option(help="Serve config file; its engine is timed instead.")] = (
        Path("configs/embedded.yaml")
    ),
    scene: Annotated[list[Scene] | None, typer.Option(help="Default: all of them.")] = None,
    rate: Annotated[float, typer.Option(help="Requests per second.", min=0.1)] = 2.0,
    after_s: Annotated[float, typer.Option(help="Seconds of load after each scene.", min=1)] = 10.0,
    stream: Annotated[bool, typer.Option(help="Stream answers: what has begun can be lost.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Change, kill and take away parts of the application under load; exit 1 when a request failed.

    Two Ray nodes on this machine, every deployment with a replica on each, indexes by URI, one budget
    for a wiki that stands in for Wikipedia. All is real but the engine and the wiki.
    """
    from benchmarks.drill.playing import drilled  # Ray, which only a drill needs

    result = drilled(config, scene or list(Scene), rate, after_s, is_streamed=stream)
    print(json.dumps(asdict(result), indent=1) if as_json else markdown(result))
    if not result.is_well:
        raise typer.Exit(1)


def markdown(result: "Drilled") -> str:
    """A row per scene, and a sentence on the budget."""
    from benchmarks.report import table

    header = ["scene", "what happened", "seconds", "requests", "failed", "p50 s", "slowest s"]
    rows = [
        [
            each.scene, each.what, f"{each.seconds:.1f}", str(each.requests), str(each.failed),
            f"{each.p50_s:.2f}", f"{each.slowest_s:.2f}",
        ]
        for each in result.scenes
    ]  # fmt: skip
    return "\n\n".join(
        [
            "## Drill",
            table(header, rows),
            f"Both nodes asked the wiki {result.wiki_requests} times, "
            f"{result.wiki_busiest_minute} times in the busiest minute (limit {result.wiki_limit}), "
            f"{result.wiki_most_in_flight} at once.",
        ]
    )
