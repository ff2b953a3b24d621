"""The command `attack`: options in, attacks sent, success rates out."""

import asyncio
import json
import tempfile
from contextlib import ExitStack
from pathlib import Path
from typing import Annotated

import typer

from benchmarks.attack.asking import AskSettings, Route
from benchmarks.attack.questions import QUESTIONS
from benchmarks.headers import read_headers
from benchmarks.terminal import answering_bar, err, fail, stop_as_ctrl_c
from crag_core.types import PipelineName

_NOTHING_ANSWERED = 3


def attack(
    url: Annotated[str, typer.Option(help="Where the server is.")] = "http://127.0.0.1:8000",
    pipeline: Annotated[
        list[PipelineName] | None, typer.Option(help="May be repeated; default crag.")
    ] = None,
    route: Annotated[Route, typer.Option(help="/v1/answer, or the OpenAI route.")] = Route.ANSWER,
    questions: Annotated[
        int, typer.Option(help="First questions of the suite.", min=1, max=len(QUESTIONS))
    ] = len(QUESTIONS),
    seed: Annotated[int, typer.Option(help="Of the canaries.")] = 0,
    max_new_tokens: Annotated[int, typer.Option(help="Tokens of an answer.", min=1, max=1024)] = 64,
    concurrency: Annotated[int, typer.Option(help="Requests in flight.", min=1, max=64)] = 4,
    timeout_s: Annotated[float, typer.Option(help="Deadline of one request.", min=1)] = 120.0,
    patience_s: Annotated[
        float, typer.Option(help="How long a server may be away before a request is left.", min=0.1)
    ] = 60.0,
    wait_s: Annotated[float, typer.Option(help="Wait so long for the server.", min=0)] = 10.0,
    allow_host: Annotated[list[str] | None, typer.Option(help="A host beside loopback.")] = None,
    headers: Annotated[
        Path | None, typer.Option(help="File of headers, 'Name: value', such as a key.")
    ] = None,
    max_success: Annotated[
        float | None, typer.Option(help="Share of attacks that may succeed.", min=0, max=1)
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help="Folder of rows and report; a run resumes there.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Attack a running server by documents and questions, and report how many attacks succeed.

    Nothing is sent but questions with documents of our own; success is decided by rule. Exit 0:
    measured; 1: a pipeline's success rate is above --max-success; 2: wrong use; 3: nothing was
    answered; 130: interrupted. Rows in --out are never lost: the same command goes on.
    """
    stop_as_ctrl_c()
    from benchmarks.attack.report import markdown, report
    from benchmarks.attack.session import RunSettings, run
    from benchmarks.load.target import parse_target, wait_until_ready
    from benchmarks.report import write_files

    try:
        asking = AskSettings(
            route, tuple(read_headers(headers)), max_new_tokens, concurrency, timeout_s, patience_s
        )
        pipelines = tuple(dict.fromkeys(pipeline or [PipelineName.CRAG]))
        settings = RunSettings(pipelines, questions, seed, asking)
        target, absence = wait_until_ready(parse_target(url, allow_host or ()), wait_s)
        if absence is not None:
            err.print(f"nothing was sent: {absence} (waited {wait_s:g} s)", markup=False)
            raise typer.Exit(_NOTHING_ANSWERED)
        with ExitStack() as stack:
            folder = out or Path(stack.enter_context(tempfile.TemporaryDirectory()))
            show = stack.enter_context(answering_bar())
            rows = asyncio.run(run(target, settings, folder, show))
        found = report(target.url, settings.identity(), settings.cases(), rows, pipelines)
        whole = json.dumps(found.as_json(), indent=1)
        if out is not None:
            write_files(out, {"report.md": markdown(found) + "\n", "report.json": whole + "\n"})
    except (OSError, ValueError) as error:
        fail(str(error))
    except KeyboardInterrupt:
        err.print(f"interrupted{f': the same command goes on from {out}' if out else ''}", markup=False)
        raise typer.Exit(130) from None
    print(whole if as_json else markdown(found))
    if not found.has_answers:
        raise typer.Exit(_NOTHING_ANSWERED)
    if max_success is not None and found.is_above(max_success):
        raise typer.Exit(1)
