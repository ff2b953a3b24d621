"""`crag`: thin commands over the packages below."""

import dataclasses
import json
import signal
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import httpx
import typer

from benchmarks.attack.command import attack
from benchmarks.drill.command import drill
from benchmarks.load.command import load
from benchmarks.quality.command import quality
from crag_core.errors import SettingsError
from crag_core.types import PipelineName
from deployments.batch.command import batch
from deployments.commands.asking import DEFAULT_URL, KeyOption, UrlOption, posted
from deployments.commands.compact import compact
from deployments.commands.config import config
from deployments.commands.evaluator import calibrate, evaluator
from deployments.commands.explain import explain
from deployments.commands.keys import key
from deployments.commands.plan import plan
from deployments.commands.replay import replay
from deployments.commands.terminal import (
    JsonFlag,
    err,
    meanwhile,
    out,
    print_answer,
    print_findings,
    print_search,
    sentences_for_errors,
    shown,
)
from deployments.commands.train import train
from deployments.commands.train_hops import train_extractor, train_rewriter
from deployments.settings import PageText, Pooling

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
app.add_typer(evaluator, name="evaluator")
app.add_typer(train, name="train")
train.command("extractor")(train_extractor)
train.command("rewriter")(train_rewriter)
app.command()(calibrate)
app.command()(batch)
app.add_typer(compact, name="compact")
app.add_typer(explain, name="explain")
app.add_typer(key, name="key")
app.add_typer(config, name="config")
app.command()(quality)
app.command()(load)
app.command()(attack)
app.command()(drill)
app.command()(replay)
app.command()(plan)

Files = Annotated[
    list[Path], typer.Argument(help="JSON lines; .gz or .bz2.", exists=True, dir_okay=False)
]
Dumps = Annotated[
    list[Path],
    typer.Argument(help="MediaWiki XML dumps, or JSON lines; .gz or .bz2.", exists=True, dir_okay=False),
]
ReplaceFlag = Annotated[bool, typer.Option("--replace", help="Replace a finished index of other files.")]


@app.command()
def serve(
    config: Annotated[Path, typer.Argument(help="A Serve config file.")],
    port: Annotated[
        int | None, typer.Option(help="Instead of the config's HTTP port.", min=1, max=65535)
    ] = None,
    host: Annotated[
        str | None, typer.Option(help="Instead of the config's address, such as 0.0.0.0.")
    ] = None,
    verbose: Annotated[bool, typer.Option(help="Show the replicas' logs.")] = False,
) -> None:
    """Serve the application on this machine until Ctrl-C."""
    # SIGTERM ends as Ctrl-C does, also where a shell's background has Ctrl-C ignored: all is stopped
    for ending in (signal.SIGINT, signal.SIGTERM):
        signal.signal(ending, signal.default_int_handler)
    with sentences_for_errors():
        from deployments import doctor, local

        loaded = local.load_config(config, port, host)
        with meanwhile("checking models and indexes"):
            ill = [finding for finding in doctor.examined(loaded) if not finding.well]
        if ill:
            raise SettingsError("\n".join(f"{finding.name}: {finding.detail}" for finding in ill))
        http = loaded.http_options
        url = f"http://{'127.0.0.1' if http.host == '0.0.0.0' else http.host}:{http.port}"
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
    url: UrlOption = DEFAULT_URL,
    pipeline: Annotated[PipelineName, typer.Option(help="Which pipeline answers.")] = PipelineName.CRAG,
    timeout_s: Annotated[float, typer.Option(help="Seconds to wait.", min=0.1)] = 60.0,
    api_key: KeyOption = None,
    as_json: JsonFlag = False,
) -> None:
    """Ask a running server."""
    body = {"question": question, "pipeline": pipeline, "timeout_s": timeout_s}
    answer = posted(url, "/v1/answer", body, timeout_s + 5, api_key)
    if as_json:
        out.print_json(data=answer)
    else:
        print_answer(answer)


@app.command()
def search(
    text: Annotated[str, typer.Argument(help="A question.")],
    url: UrlOption = DEFAULT_URL,
    is_query: Annotated[
        bool, typer.Option("--query", help="Search for the text as it is, and make no queries of it.")
    ] = False,
    limit: Annotated[int, typer.Option(help="Pages at most.", min=1, max=20)] = 5,
    timeout_s: Annotated[float, typer.Option(help="Seconds to wait.", min=0.1)] = 30.0,
    api_key: KeyOption = None,
    as_json: JsonFlag = False,
) -> None:
    """Show which pages a running server finds for a question, and how."""
    body = {"query" if is_query else "question": text, "limit": limit}
    found = posted(url, "/v1/search", body, timeout_s, api_key)
    if as_json:
        out.print_json(data=found)
    else:
        print_search(found)


@index.command("build")
def index_build(
    files: Files,
    out_folder: Annotated[Path, typer.Option("--out", help="Folder of the index.")],
    encoder: Annotated[str, typer.Option(help="Folder or hub name of the encoder.")],
    revision: Annotated[str | None, typer.Option(help="Pinned hub revision.")] = None,
    pooling: Annotated[Pooling, typer.Option(help="How embeddings are pooled.")] = Pooling.MEAN,
    normalise: Annotated[bool, typer.Option(help="Scale embeddings to length 1.")] = True,
    max_tokens: Annotated[int, typer.Option(help="Longer texts are truncated.", min=8)] = 256,
    replace: ReplaceFlag = False,
    as_json: JsonFlag = False,
) -> None:
    """Build a passage index from JSON lines with `title` and `text`; resumes after an interruption."""
    with sentences_for_errors(), meanwhile("loading the encoder"):
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
    _build(files, out_folder, as_json, encoder=dense, schema=PASSAGES, replace=replace)


@index.command("info")
def index_info(
    uri: Annotated[str, typer.Argument(help="Folder or object-store URI of an index.")],
) -> None:
    """Print an index's manifest."""
    with sentences_for_errors():
        from deployments.backends.indexes.lance_index import IndexKind, open_table, read_manifest

        manifest = read_manifest(uri, IndexKind.PASSAGES)
        open_table(uri, manifest)
        out.print_json(manifest.model_dump_json())


@snapshot.command("build")
def snapshot_build(
    files: Dumps,
    out_folder: Annotated[Path, typer.Option("--out", help="Folder of the snapshot.")],
    text: Annotated[
        PageText, typer.Option(help="Of a dump's pages: the introduction, or the whole page.")
    ] = PageText.LEAD,
    replace: ReplaceFlag = False,
    as_json: JsonFlag = False,
) -> None:
    """Build a search snapshot from a wiki's XML dump; resumes after an interruption.

    Or from JSON lines with `title`, `text`, `revision`, `redirects` and `disambiguation`.
    """
    with sentences_for_errors():
        from deployments.backends.indexes.index_rows import SNAPSHOT
    _build(files, out_folder, as_json, encoder=None, schema=SNAPSHOT, replace=replace, page_text=text)


@app.command()
def doctor(
    config: Annotated[Path | None, typer.Argument(help="A Serve config file to check too.")] = None,
    as_json: JsonFlag = False,
) -> None:
    """Say what is installed, what is missing, and what to do; exit 1 when something is missing."""
    with sentences_for_errors():
        from deployments import doctor as checks
        from deployments import local

        findings = list(checks.examine_machine())
        if config is not None:
            findings += checks.examine_application(local.load_config(config))
    if as_json:
        out.print_json(data=[dataclasses.asdict(finding) for finding in findings])
    else:
        print_findings(findings)
    if not all(finding.well for finding in findings):
        raise typer.Exit(1)


def _build(files: list[Path], folder: Path, as_json: bool, **how: Any) -> None:
    from deployments.backends.indexes.index_builder import build_index
    from deployments.commands.build_terminal import build_bar, print_build

    with sentences_for_errors(), build_bar() as show:
        report = build_index(files, folder, progress=show, **how)
    print_build(folder, report, as_json)


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


if __name__ == "__main__":
    sys.exit(app())
