"""The command `batch`: files of questions in, parts of answers out, by Ray Data."""

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import httpx
import typer
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from benchmarks.headers import read_headers
from benchmarks.run_folder import RunFolder
from crag_core.errors import SettingsError
from crag_core.types import PipelineName
from deployments.commands.terminal import JsonFlag, err, out, sentences_for_errors

if TYPE_CHECKING:
    from deployments.batch.answering import BatchSettings
    from deployments.batch.blocks import Block


def batch(
    source: Annotated[Path, typer.Argument(metavar="IN", help="JSON lines, or a folder.", exists=True)],
    folder: Annotated[Path, typer.Argument(metavar="OUT", help="Folder on shared storage.")],
    url: Annotated[str, typer.Option(help="Where the server is.")] = "http://127.0.0.1:8000",
    headers: Annotated[
        Path | None, typer.Option(help="File of headers, 'Name: value', such as a key.", exists=True)
    ] = None,
    pipeline: Annotated[
        PipelineName | None, typer.Option(help="Where a line names none; default the server's.")
    ] = None,
    trace: Annotated[bool, typer.Option(help="Keep each answer's trace.")] = False,
    address: Annotated[
        str | None, typer.Option(help="Address of a Ray cluster, or auto; default: this machine.")
    ] = None,
    workers: Annotated[int, typer.Option(help="Actors that ask.", min=1, max=1000)] = 2,
    concurrency: Annotated[int, typer.Option(help="Requests in flight of each.", min=1, max=256)] = 16,
    block: Annotated[
        int, typer.Option(help="Lines per part: what an interruption loses at most.", min=1)
    ] = 200,
    timeout_s: Annotated[float, typer.Option(help="Deadline of one answer.", min=1)] = 120.0,
    patience_s: Annotated[
        float, typer.Option(help="How long a server may be away before a part is given up.", min=1)
    ] = 600.0,
    as_json: JsonFlag = False,
) -> None:
    """Answer every line of IN: as many records as lines, in order, whatever happens on the way.

    A line is a body of `/v1/answer`, with an `id` of yours. OUT gets a part for each block of lines;
    joined by name they are in the order of IN. A line that cannot be answered has a record with its
    `error`. Exit 0: every line has its record; 1: some parts are missing, the same command makes them;
    2: wrong use; 130: interrupted.
    """
    with sentences_for_errors(f"interrupted: the same command goes on in {folder}"):
        from deployments.batch.answering import BatchSettings
        from deployments.batch.blocks import blocks_of, identity, input_files

        files = input_files(source)
        fields = {"trace": trace, **({"pipeline": str(pipeline)} if pipeline else {})}
        run = {"format": 1, "input": identity(files), "block": block, "fields": fields}
        wanted = blocks_of(files, block)
        try:
            sent = tuple(read_headers(headers))
            parts = RunFolder(folder, run)
            rows = {row["part"]: row for _, row in parts.rows()}
        except (OSError, ValueError) as error:
            raise SettingsError(str(error)) from error
        done = {name: row for name, row in rows.items() if (folder / name).exists()}
        missing = [each for each in wanted if each.part not in done]
        settings = BatchSettings(
            url.rstrip("/"), sent, str(folder.absolute()), fields, concurrency, timeout_s, patience_s
        )
        with closing(parts):
            for row in _answered(missing, settings, workers, address, len(wanted)):
                if row["unfinished"]:
                    err.print(f"[yellow]{row['part']}[/] {row['unfinished']}", highlight=False)
                else:
                    parts.add(row)
                    done[row["part"]] = row
    report = {
        "parts": len(done),
        "parts_wanted": len(wanted),
        "records": sum(row["records"] for row in done.values()),
        "errors": sum(row["errors"] for row in done.values()),
    }
    if as_json:
        out.print_json(data=report)
    else:
        out.print(
            f"{folder}: {report['records']:,} records in {len(done):,} of {len(wanted):,} parts, "
            f"{report['errors']:,} of them errors"
        )
    if len(done) < len(wanted):
        raise typer.Exit(1)


def _answered(
    blocks: "list[Block]",
    settings: "BatchSettings",
    workers: int,
    address: str | None,
    total: int,
) -> Iterator[dict[str, Any]]:
    """What became of each block, as the cluster gets them done."""
    if not blocks:
        return
    _refuse_absent_server(settings.url)
    from deployments.batch.cluster import answered_on_cluster

    columns = (TextColumn("parts"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=err) as bar:
        task = bar.add_task("parts", total=total, completed=total - len(blocks))
        for row in answered_on_cluster(blocks, settings, workers=workers, address=address):
            bar.advance(task)
            yield row


def _refuse_absent_server(url: str) -> None:
    try:
        httpx.get(f"{url}/livez", timeout=10).raise_for_status()
    except httpx.HTTPError as error:
        raise SettingsError(
            f"no server answers at {url} ({error}): start one with `crag serve configs/embedded.yaml`"
        ) from error
