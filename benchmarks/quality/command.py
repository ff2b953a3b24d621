"""The command `quality`: options in, answers asked, a report out."""

import asyncio
import json
import shlex
import sys
import tempfile
from contextlib import ExitStack
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import httpx
import typer

from benchmarks.headers import read_headers
from benchmarks.quality.methods import DEFAULT_METHODS, Method
from benchmarks.quality.search_side import SearchSide
from benchmarks.terminal import answering_bar, err, fail, stop_as_ctrl_c
from crag_core.errors import SettingsError

if TYPE_CHECKING:
    from benchmarks.quality.analysis import SetResults


class Documents(StrEnum):
    """Where internal knowledge comes from: the set's own documents, or the server's retrieval."""

    GIVEN = "given"
    RETRIEVED = "retrieved"


def quality(
    data: Annotated[Path, typer.Option(help="Folder with the question sets, or one file.", exists=True)],
    name: Annotated[
        list[str] | None,
        typer.Option(
            help="Question set: popqa, arc_challenge, pubhealth, hotpotqa, 2wiki, musique, or any file "
            "of rows with id, question and answers, by its name. May be repeated; default popqa."
        ),
    ] = None,
    method: Annotated[
        list[Method] | None,
        typer.Option(help="May be repeated; default no_retrieval, both rag and both crag."),
    ] = None,
    url: Annotated[str, typer.Option(help="Where the server is.")] = "http://127.0.0.1:8000",
    config: Annotated[
        Path | None,
        typer.Option(help="Answer in this process, as this Serve config file says.", exists=True),
    ] = None,
    documents: Annotated[
        Documents, typer.Option(help="The set's own documents where it has them, or retrieval.")
    ] = Documents.GIVEN,
    search: Annotated[
        SearchSide | None,
        typer.Option(
            help="Where crag searches; with --config it is set, with --url it is checked. replay: what "
            "each set's own search found."
        ),
    ] = None,
    headers: Annotated[
        Path | None, typer.Option(help="File of headers, 'Name: value', such as a key.", exists=True)
    ] = None,
    limit: Annotated[int | None, typer.Option(help="First questions of each set.", min=1)] = None,
    max_new_tokens: Annotated[int | None, typer.Option(help="Tokens of an answer.", min=1)] = None,
    concurrency: Annotated[int, typer.Option(help="Requests in flight.", min=1, max=256)] = 8,
    timeout_s: Annotated[float, typer.Option(help="Deadline of one request.", min=1)] = 120.0,
    patience_s: Annotated[
        float,
        typer.Option(help="How long a server may be away before a question counts as failed.", min=1),
    ] = 300.0,
    out: Annotated[
        Path | None, typer.Option(help="Folder of rows, report and figures; a run resumes there.")
    ] = None,
    baseline: Annotated[
        Path | None, typer.Option(help="Compare with this baseline; exit 1 when worse.", exists=True)
    ] = None,
    write_baseline: Annotated[Path | None, typer.Option(help="Make this run a baseline.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Answer question sets by each method and report accuracy with intervals, actions, hits and costs.

    Answers are forced, as in the papers; a failed request counts as wrong. Exit 0: well; 1: some request
    failed, or worse than the baseline beyond noise; 2: wrong use or a bad file; 130: interrupted. Rows
    in --out are never lost: the same command goes on where it stopped.
    """
    # SIGTERM ends as Ctrl-C does, so that what was answered is whole on the disk
    stop_as_ctrl_c()
    from benchmarks.quality.session import RunSettings, run

    try:
        settings = RunSettings(
            data=data,
            names=tuple(dict.fromkeys(name or ["popqa"])),
            methods=tuple(dict.fromkeys(method or DEFAULT_METHODS)),
            url=url,
            headers=tuple(read_headers(headers)),
            config=config,
            given=documents is Documents.GIVEN,
            search=search,
            limit=limit,
            max_new_tokens=max_new_tokens,
            concurrency=concurrency,
            timeout_s=timeout_s,
            patience_s=patience_s,
        )
        with ExitStack() as stack:
            folder = out or Path(stack.enter_context(tempfile.TemporaryDirectory()))
            if config is None:
                _refuse_absent_server(url)
            show = stack.enter_context(answering_bar())
            results = asyncio.run(run(settings, folder, show))
        is_worse = _finish(results, settings.identity(), out, baseline, write_baseline, as_json=as_json)
    except (SettingsError, OSError, ValueError) as error:
        fail(str(error))
    except KeyboardInterrupt:
        kept = f": the same command goes on from {out}" if out else ""
        err.print(f"interrupted{kept}")
        raise typer.Exit(130) from None
    has_failed = any(
        row.error is not None for each in results for rows in each.rows.values() for row in rows
    )
    if is_worse or has_failed:
        raise typer.Exit(1)


def _finish(
    results: "list[SetResults]",
    run: dict[str, object],
    out: Path | None,
    baseline: Path | None,
    write_baseline: Path | None,
    *,
    as_json: bool,
) -> bool:
    """Print, write, and compare; whether the run is worse than its baseline."""
    from benchmarks.quality import gate, written

    compared = gate.compare(gate.read_baseline(baseline), results) if baseline else []
    if out is not None:
        written.write(out, results, run)
    if write_baseline is not None:
        gate.write_baseline(write_baseline, results, f"crag {shlex.join(sys.argv[1:])}")
    if as_json:
        report = written.as_json(results, run)
        report["baseline"] = [str(each) for each in compared]
        print(json.dumps(report, indent=1))
    else:
        print(written.markdown(results, run))
    for each in compared:
        err.print(f"[{'red' if each.is_worse else 'green'}]{each}[/]")
    return any(each.is_worse for each in compared)


def _refuse_absent_server(url: str) -> None:
    try:
        httpx.get(f"{url.rstrip('/')}/livez", timeout=10).raise_for_status()
    except httpx.HTTPError as error:
        fail(f"no server answers at {url}: {error}; start one, or answer in process with --config")
