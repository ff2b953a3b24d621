"""`crag`: thin commands over the packages below."""

import dataclasses
import json
import signal
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any, NoReturn

import httpx
import typer

from benchmarks.load.command import load
from benchmarks.quality import quality
from crag_core.errors import SettingsError
from crag_core.types import PipelineName
from deployments.settings import Pooling
from deployments.terminal import err, out, print_answer, print_findings, shown

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    help="A distributed inference server for corrective retrieval augmented generation.",
)
index = typer.Typer(no_args_is_help=True, help="Passage indexes for the retriever.")
snapshot = typer.Typer(no_args_is_help=True, help="Local snapshots for the search.")
app.add_typer(index, name="index")
app.add_typer(snapshot, name="snapshot")
app.command()(quality)
app.command()(load)

DEFAULT_URL = "http://127.0.0.1:8000"
JsonFlag = Annotated[bool, typer.Option("--json", help="Print JSON.")]
Files = Annotated[
    list[Path], typer.Argument(help="JSON lines, .gz or not.", exists=True, dir_okay=False)
]


@app.command()
def serve(
    config: Annotated[Path, typer.Argument(help="A Serve config file.")],
    port: Annotated[
        int | None, typer.Option(help="Instead of the config's HTTP port.", min=1, max=65535)
    ] = None,
    verbose: Annotated[bool, typer.Option(help="Show the replicas' logs.")] = False,
) -> None:
    """Serve the application on this machine until Ctrl-C."""
    # SIGTERM ends as Ctrl-C does, also where a shell's background has Ctrl-C ignored: all is stopped
    for ending in (signal.SIGINT, signal.SIGTERM):
        signal.signal(ending, signal.default_int_handler)
    with _sentences_for_errors():
        from deployments import doctor, local

        loaded = local.load_config(config, port)
        with _meanwhile("checking models and indexes"):
            ill = [finding for finding in doctor.examined(loaded) if not finding.well]
        if ill:
            raise SettingsError("\n".join(f"{finding.name}: {finding.detail}" for finding in ill))
        url = f"http://{loaded.http_options.host}:{loaded.http_options.port}"
        started = time.monotonic()
        err.print(f"starting the application of {config}")
        try:
            local.start(loaded, verbose=verbose)
            local.wait_until_running(lambda states: _print_states(states, started))
            _wait_until_ready(url, started)
            _print_address(url)
            signal.pause()
        except KeyboardInterrupt:
            err.print("stopping")
        finally:
            local.stop()


@app.command()
def ask(
    question: Annotated[str, typer.Argument(help="The question.")],
    url: Annotated[str, typer.Option(help="Where the server is.")] = DEFAULT_URL,
    pipeline: Annotated[PipelineName, typer.Option(help="Which pipeline answers.")] = PipelineName.CRAG,
    timeout_s: Annotated[float, typer.Option(help="Seconds to wait.", min=0.1)] = 60.0,
    as_json: JsonFlag = False,
) -> None:
    """Ask a running server."""
    body = {"question": question, "pipeline": pipeline, "timeout_s": timeout_s}
    answer = _post(url.rstrip("/"), "/v1/answer", body, timeout_s + 5)
    if as_json:
        out.print_json(data=answer)
    else:
        print_answer(answer)


@index.command("build")
def index_build(
    files: Files,
    out_folder: Annotated[Path, typer.Option("--out", help="Folder of the index.")],
    encoder: Annotated[str, typer.Option(help="Folder or hub name of the encoder.")],
    revision: Annotated[str | None, typer.Option(help="Pinned hub revision.")] = None,
    pooling: Annotated[Pooling, typer.Option(help="How embeddings are pooled.")] = Pooling.MEAN,
    normalise: Annotated[bool, typer.Option(help="Scale embeddings to length 1.")] = True,
    max_tokens: Annotated[int, typer.Option(help="Longer texts are truncated.", min=8)] = 256,
    as_json: JsonFlag = False,
) -> None:
    """Build a passage index from JSON lines with `title` and `text`; resumes after an interruption."""
    with _sentences_for_errors(), _meanwhile("loading the encoder"):
        from deployments.backends.dense_encoder import DenseEncoder
        from deployments.backends.indexes.index_rows import PASSAGES
        from deployments.settings import EncoderSettings

        dense = DenseEncoder(
            EncoderSettings(
                model=encoder,
                revision=revision,
                pooling=pooling,
                normalise=normalise,
                max_tokens=max_tokens,
            )
        )
    _build(files, out_folder, dense, PASSAGES, as_json)


@index.command("info")
def index_info(
    uri: Annotated[str, typer.Argument(help="Folder or object-store URI of an index.")],
) -> None:
    """Print an index's manifest."""
    with _sentences_for_errors():
        from deployments.backends.indexes.lance_index import IndexKind, open_table, read_manifest

        manifest = read_manifest(uri, IndexKind.PASSAGES)
        open_table(uri, manifest)
        out.print_json(manifest.model_dump_json())


@snapshot.command("build")
def snapshot_build(
    files: Files,
    out_folder: Annotated[Path, typer.Option("--out", help="Folder of the snapshot.")],
    as_json: JsonFlag = False,
) -> None:
    """Build a search snapshot from JSON lines with `title`, `text`, `revision` and `redirects`."""
    with _sentences_for_errors():
        from deployments.backends.indexes.index_rows import SNAPSHOT
    _build(files, out_folder, None, SNAPSHOT, as_json)


@app.command()
def doctor(
    config: Annotated[Path | None, typer.Argument(help="A Serve config file to check too.")] = None,
    gpu: Annotated[bool, typer.Option(help="Plan the GPU memory of the config.")] = False,
    card_gib: Annotated[float, typer.Option(help="Memory of one card, for --gpu.", min=1)] = 24.0,
    as_json: JsonFlag = False,
) -> None:
    """Say what is installed, what is missing, and what to do; exit 1 when something is missing."""
    with _sentences_for_errors():
        from deployments import doctor as checks
        from deployments import local

        findings = list(checks.examine_machine())
        if config is not None:
            loaded = local.load_config(config)
            findings += checks.examine_application(loaded)
            if gpu:
                from deployments.gpu_plan import plan_gpu

                findings += checks.planned(lambda: plan_gpu(loaded, card_gib))
        elif gpu:
            raise SettingsError("--gpu plans the memory of a config: name one")
    if as_json:
        out.print_json(data=[dataclasses.asdict(finding) for finding in findings])
    else:
        print_findings(findings)
    if not all(finding.well for finding in findings):
        raise typer.Exit(1)


def _post(url: str, path: str, body: Mapping[str, Any], timeout_s: float) -> dict[str, Any]:
    try:
        response = httpx.post(f"{url}{path}", json=body, timeout=timeout_s)
    except httpx.ConnectError:
        _fail(f"no server answers at {url}: start one with `crag serve configs/embedded.yaml`")
    except httpx.HTTPError as error:
        _fail(f"the request to {url} failed: {error}")
    try:
        reply: dict[str, Any] = response.json()
        refusal = reply.get("error")
    except (ValueError, AttributeError):
        _fail(f"{url} answered HTTP {response.status_code}, and not as this server does")
    if refusal is not None:
        _fail(f"{response.status_code} {refusal['code']}: {refusal['message']}")
    return reply


def _build(files: list[Path], folder: Path, encoder: Any, schema: Any, as_json: bool) -> None:
    from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    from deployments.backends.indexes.index_builder import build_index

    columns = (SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
    with _sentences_for_errors(), Progress(*columns, console=err) as bar:
        task = bar.add_task("reading")
        report = build_index(
            files,
            folder,
            encoder,
            schema=schema,
            progress=lambda done: bar.update(
                task, description=f"{done.rows:,} rows of {done.lines:,} lines, {done.rejected} rejected"
            ),
        )
    for rejection in report.rejections:
        place = f"[yellow]{shown(rejection.file)}:{rejection.line}[/]"
        err.print(f"{place} {shown(rejection.reason)}", highlight=False)
    if as_json:
        out.print_json(report.manifest.model_dump_json())
    else:
        manifest = report.manifest
        out.print(f"{folder}: {manifest.rows:,} rows, {manifest.rejected} lines rejected")


def _print_states(states: Mapping[str, str], started: float) -> None:
    up = [name for name, state in states.items() if state == "HEALTHY"]
    coming = [name for name, state in states.items() if state != "HEALTHY"]
    waiting = f", waiting for {', '.join(coming)}" if coming else ""
    err.print(
        f"{time.monotonic() - started:5.1f} s  up: {', '.join(up) or '-'}{waiting}", highlight=False
    )


def _wait_until_ready(url: str, started: float) -> None:
    """Until every stage has answered its canary; says what each is waiting for."""
    seen = ""
    while True:
        try:
            report = httpx.get(f"{url}/readyz", timeout=5).json()
        except (httpx.HTTPError, ValueError):
            report = {"ready": False, "stages": {}}
        if report["ready"]:
            err.print(f"{time.monotonic() - started:5.1f} s  ready")
            return
        states = ", ".join(f"{name} {stage['state']}" for name, stage in report["stages"].items())
        if states != seen:
            err.print(f"{time.monotonic() - started:5.1f} s  {shown(states)}")
            seen = states
        time.sleep(0.5)


def _print_address(url: str) -> None:
    body = json.dumps({"question": "Who wrote Nineteen Eighty-Four?"})
    out.print(f"\nServing on [bold]{url}[/]  (documentation: {url}/docs)", highlight=False)
    out.print(f"  curl {url}/v1/answer -H 'Content-Type: application/json' -d '{body}'", soft_wrap=True)
    out.print("Stop with Ctrl-C.")


@contextmanager
def _meanwhile(what: str) -> Iterator[None]:
    """Says what takes its time."""
    with err.status(what):
        yield


@contextmanager
def _sentences_for_errors() -> Iterator[None]:
    """Errors in what was asked for are told in their own sentence, bugs keep their traceback."""
    try:
        yield
    except SettingsError as error:
        _fail(str(error))
    except KeyboardInterrupt:
        err.print("interrupted")
        raise typer.Exit(130) from None


def _fail(message: str) -> NoReturn:
    err.print(f"[red]error:[/] {shown(message)}", highlight=False)
    raise typer.Exit(2)


if __name__ == "__main__":
    sys.exit(app())
