"""What a build of an index prints: a bar while it runs, its rejections and its result after."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from rich.filesize import decimal
from rich.progress import BarColumn, SpinnerColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.progress import Progress as Bar

from deployments.backends.indexes.index_builder import IndexReport
from deployments.backends.indexes.index_sources import Progress, Step
from deployments.commands.terminal import err, out, shown


@contextmanager
def build_bar() -> Iterator[Callable[[Progress], None]]:
    """A bar for each step of a build, fed by what it yields; without a terminal it stays silent."""
    with Bar(
        SpinnerColumn(),
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.fields[counts]}"),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
        console=err,
    ) as bar:
        task = bar.add_task("checking the files", total=None, counts="")
        shown_step: Step | None = None

        def show(progress: Progress) -> None:
            nonlocal task, shown_step
            if progress.step is not shown_step:
                shown_step = progress.step
                bar.remove_task(task)
                task = bar.add_task(progress.step, total=progress.total or None, counts="")
            bar.update(task, completed=progress.done, counts=_counts(progress))

        yield show


def print_build(folder: Path, report: IndexReport, as_json: bool) -> None:
    """The first rejections, what was replaced, and what the folder holds now."""
    for rejection in report.rejections:
        place = f"[yellow]{shown(rejection.file)}:{rejection.line}[/]"
        err.print(f"{place} {shown(rejection.reason)}", highlight=False)
    if report.replaced:
        sources = ", ".join(source.name for source in report.replaced.sources)
        err.print(f"replaced {report.replaced.rows:,} rows of {shown(sources)}")
    if as_json:
        out.print_json(report.manifest.model_dump_json())
    else:
        out.print(f"{folder}: {report.manifest.rows:,} rows, {report.manifest.rejected:,} rejected")


def _counts(progress: Progress) -> str:
    counts = f"{progress.rows:,} rows, {progress.rejected:,} rejected"
    if progress.step is Step.READING:
        return f"{decimal(progress.done)} of {decimal(progress.total)}, {counts}"
    return counts
