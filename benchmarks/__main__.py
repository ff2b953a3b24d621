"""`python -m benchmarks`."""

import typer

from benchmarks.engine.command import engine
from benchmarks.engine.variants import engine_variants
from benchmarks.gpu import gpu
from benchmarks.hangups import hangups
from benchmarks.overhead.overhead import overhead
from benchmarks.quality import quality
from benchmarks.scheduler import scheduler
from benchmarks.search import search
from benchmarks.search_pool import search_pool

COMMANDS = (
    quality,
    search,
    engine,
    engine_variants,
    scheduler,
    hangups,
    search_pool,
    overhead,
    gpu,
)

app = typer.Typer(no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False)
for command in COMMANDS:
    app.command()(command)


@app.callback()
def benchmarks() -> None:
    """Measure a server (`quality`), or a part: searching, the evaluator, serving alone, a GPU."""


if __name__ == "__main__":
    app()
