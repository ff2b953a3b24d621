"""What commands that ask a server for a while show on the terminal, and how they end."""

import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import NoReturn

import typer
from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.progress import Progress as Bar

Progress = Callable[[int, int, int], None]
"""Told how many are done, how many are wanted, and how many of them failed."""

err = Console(stderr=True, highlight=False)


def stop_as_ctrl_c() -> None:
    """Let SIGTERM end the command as Ctrl-C does, also where a shell's background ignores that."""
    for ending in (signal.SIGINT, signal.SIGTERM):
        signal.signal(ending, signal.default_int_handler)


def fail(message: str) -> NoReturn:
    """End the command with a sentence, as wrong use."""
    print(f"error: {message}", file=sys.stderr)
    raise typer.Exit(2)


@contextmanager
def answering_bar() -> Iterator[Progress]:
    """A bar of answers on the standard error; yields how to move it."""
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Bar(*columns, TimeRemainingColumn(), console=err) as bar:
        task = bar.add_task("answering", total=None)

        def show(done: int, wanted: int, failures: int) -> None:
            told = f", {failures} failed" if failures else ""
            bar.update(task, completed=done, total=wanted, description=f"answering{told}")

        yield show
