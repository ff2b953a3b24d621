"""`python -m benchmarks`."""

import typer

from benchmarks.quality import quality

app = typer.Typer(no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False)
app.command()(quality)


@app.callback()
def benchmarks() -> None:
    """Measure a running server."""


if __name__ == "__main__":
    app()
