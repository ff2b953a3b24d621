"""The command `load`: options in, a report out."""

import json
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from benchmarks.headers import read_headers
from benchmarks.load.arrivals import Arrivals
from benchmarks.load.workloads import WorkloadName
from benchmarks.terminal import fail, stop_as_ctrl_c
from crag_core.types import PipelineName

if TYPE_CHECKING:
    from benchmarks.load.session import Session
    from benchmarks.load.settings import LoadSettings


def load(
    url: Annotated[str, typer.Option(help="Where the server is.")] = "http://127.0.0.1:8000",
    workload: Annotated[WorkloadName, typer.Option(help="What is sent.")] = WorkloadName.W2,
    pipeline: Annotated[PipelineName, typer.Option(help="Which pipeline answers.")] = PipelineName.CRAG,
    stream: Annotated[bool, typer.Option(help="Stream answers on the OpenAI route.")] = False,
    max_new_tokens: Annotated[int | None, typer.Option(help="Tokens generated at most.")] = None,
    data: Annotated[Path | None, typer.Option(help="Folder, for --workload data.")] = None,
    name: Annotated[str, typer.Option(help="Question set: file name without .jsonl.")] = "questions",
    documents: Annotated[bool, typer.Option(help="Send the set's own documents along.")] = False,
    arrivals: Annotated[Arrivals, typer.Option(help="When requests are due.")] = Arrivals.POISSON,
    rate: Annotated[float, typer.Option(help="Requests per second; a ramp's first rate.")] = 1.0,
    rate_to: Annotated[float, typer.Option(help="A ramp's last rate.")] = 0.0,
    cv: Annotated[float, typer.Option(help="Coefficient of variation, for gamma.")] = 3.0,
    trace: Annotated[Path | None, typer.Option(help="File of arrival times, for trace.")] = None,
    concurrency: Annotated[int, typer.Option(help="Requests in flight, for closed.")] = 8,
    duration_s: Annotated[float, typer.Option(help="Seconds measured.")] = 60.0,
    warmup_s: Annotated[float, typer.Option(help="Seconds sent before, not measured.")] = 10.0,
    max_requests: Annotated[int, typer.Option(help="Requests at most.")] = 100_000,
    seed: Annotated[int, typer.Option(help="Of arrivals, texts, actions and hang-ups.")] = 0,
    timeout_s: Annotated[float, typer.Option(help="Seconds until a client gives up.")] = 60.0,
    deadline_s: Annotated[float | None, typer.Option(help="Deadline asked of the server.")] = None,
    retries: Annotated[int, typer.Option(help="After 429, 503 or no connection.")] = 0,
    hang_up_share: Annotated[float, typer.Option(help="Share of clients that hang up.")] = 0.0,
    hang_up_within_s: Annotated[float, typer.Option(help="... at a moment up to this late.")] = 2.0,
    background: Annotated[int, typer.Option(help="Background calls in flight, for w5.")] = 2,
    slo_s: Annotated[float | None, typer.Option(help="Good: whole answer within seconds.")] = None,
    slo_first_token_s: Annotated[float | None, typer.Option(help="Good: first token within.")] = None,
    slo_share: Annotated[float, typer.Option(help="Share that must be good.")] = 0.99,
    find_max: Annotated[bool, typer.Option(help="Search the highest rate within the SLO.")] = False,
    repeats: Annotated[int, typer.Option(help="Searches, for --find-max.", min=1, max=20)] = 3,
    processes: Annotated[int, typer.Option(help="Processes that send.")] = 1,
    connections: Annotated[int, typer.Option(help="Connections at most.")] = 1000,
    wait_s: Annotated[float, typer.Option(help="Wait so long for the server.", min=0)] = 10.0,
    allow_host: Annotated[list[str] | None, typer.Option(help="A host beside loopback.")] = None,
    headers: Annotated[Path | None, typer.Option(help="File of headers, 'Name: value'.")] = None,
    metrics_port: Annotated[
        int | None, typer.Option(help="Serve Prometheus metrics on loopback; 0: a free port.", max=65535)
    ] = None,
    out: Annotated[Path | None, typer.Option(help="Folder for JSON, Markdown, HTML, records.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Send load to a running server and report latency, goodput, outcomes and stages.

    Requests are due when the arrival process says so, and are measured from then. Exit 0: well;
    1: the SLO is missed; 2: wrong use; 3: nothing was answered; 130: interrupted. Each but 2 reports.
    """
    options = dict(locals())
    # SIGTERM ends as Ctrl-C does: with the report so far
    stop_as_ctrl_c()
    try:
        session = _session(options)
        with ExitStack() as stack:
            if metrics_port is not None:
                from benchmarks.load.exposition import served

                port = stack.enter_context(served(session.exposition, metrics_port))
                session.console.print(f"metrics on http://127.0.0.1:{port}/metrics", highlight=False)
            report = session.search(repeats) if find_max else session.measure()
        if out is not None:
            from benchmarks.load.written import write

            written = write(out, report, session.records)
            session.console.print(f"written: {', '.join(map(str, written))}", highlight=False)
    except (OSError, ValueError) as error:
        fail(str(error))
    if as_json:
        print(json.dumps(report.as_json(), indent=1))
    else:
        from benchmarks.load.written import markdown

        print(markdown(report))
    raise typer.Exit(int(report.verdict.exit_code))


def _session(options: Mapping[str, Any]) -> "Session":
    """Options checked and put together; whatever cannot work is refused before anything is sent."""
    from pydantic import ValidationError
    from rich.console import Console

    from benchmarks.load.generator import due_times
    from benchmarks.load.session import Session
    from benchmarks.load.target import parse_target
    from benchmarks.load.workloads import workload

    try:
        settings = _settings(options)
    except ValidationError as error:
        fail("; ".join(_sentence(detail) for detail in error.errors()))
    if options["find_max"]:
        if not settings.slo.is_set:
            fail("--find-max needs an SLO: --slo-s or --slo-first-token-s")
        if settings.arrivals.kind not in (Arrivals.POISSON, Arrivals.GAMMA, Arrivals.CONSTANT):
            fail(f"--find-max sets the rate itself, and arrivals `{settings.arrivals.kind}` has none")
    target = parse_target(options["url"], options["allow_host"] or ())
    workload(settings)
    if settings.arrivals.kind is not Arrivals.CLOSED:
        due_times(settings)
    return Session(target, settings, Console(stderr=True), wait_s=options["wait_s"])


def _settings(options: Mapping[str, Any]) -> "LoadSettings":
    from benchmarks.load.settings import LoadSettings

    return LoadSettings.model_validate(
        {
            "arrivals": {
                "kind": options["arrivals"],
                "rate_per_s": options["rate"],
                "rate_to_per_s": options["rate_to"],
                "cv": options["cv"],
                "trace": options["trace"],
                "concurrency": options["concurrency"],
            },
            "workload": {
                "name": options["workload"],
                "pipeline": options["pipeline"],
                "is_streamed": options["stream"],
                "data": options["data"],
                "data_name": options["name"],
                "with_documents": options["documents"],
                "max_new_tokens": options["max_new_tokens"],
                "hang_up_share": options["hang_up_share"],
                "hang_up_within_s": options["hang_up_within_s"],
                "background": options["background"],
            },
            "client": {
                "timeout_s": options["timeout_s"],
                "deadline_s": options["deadline_s"],
                "retries": options["retries"],
                "connections": options["connections"],
                "headers": read_headers(options["headers"]),
            },
            "slo": {
                "latency_s": options["slo_s"],
                "first_token_s": options["slo_first_token_s"],
                "share": options["slo_share"],
            },
            "duration_s": options["duration_s"],
            "warmup_s": options["warmup_s"],
            "max_requests": options["max_requests"],
            "seed": options["seed"],
            "processes": options["processes"],
        }
    )


def _sentence(detail: Mapping[str, Any]) -> str:
    where = ".".join(str(part) for part in detail["loc"])
    message = str(detail["msg"]).removeprefix("Value error, ")
    return f"{where}: {message}, not {detail['input']!r}" if where else message
