"""`python -m benchmarks`."""

import typer

from benchmarks.engine import engine
from benchmarks.gpu import gpu
from benchmarks.quality import quality
from benchmarks.scheduler import scheduler
from benchmarks.search import search

app = typer.Typer(no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False)
for command in (quality, search, engine, scheduler, gpu):
    app.command()(command)


@app.callback()
def benchmarks() -> None:
    """Measure a server (`quality`), searching, the evaluator's engine and scheduler, a GPU."""


if __name__ == "__main__":
    app()
