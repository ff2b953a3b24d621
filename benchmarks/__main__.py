"""`python -m benchmarks`."""

import typer

from benchmarks.compact.cost import compact_cost
from benchmarks.compact.coverage import compact_coverage
from benchmarks.compact.fuzz import compact_fuzz
from benchmarks.compact.model_plans import compact_plans
from benchmarks.engine.command import engine
from benchmarks.gpu import gpu
from benchmarks.hangups import hangups
from benchmarks.overhead.overhead import overhead
from benchmarks.quality import quality
from benchmarks.scheduler import scheduler

app = typer.Typer(no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False)
for command in (
    quality,
    engine,
    scheduler,
    hangups,
    overhead,
    gpu,
    compact_coverage,
    compact_cost,
    compact_plans,
    compact_fuzz,
):
    app.command()(command)


@app.callback()
def benchmarks() -> None:
    """Measure a running server (`quality`), the evaluator's engine, its scheduler, a GPU."""


if __name__ == "__main__":
    app()
