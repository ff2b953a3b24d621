"""`python -m benchmarks`."""

import sys
from importlib import import_module

import typer

COMMANDS = {
    "quality": "benchmarks.quality",
    "load": "benchmarks.load.command",
    "wikipedia-stub": "benchmarks.load.wikipedia_stub",
    "engine": "benchmarks.engine",
    "scheduler": "benchmarks.scheduler",
    "gpu": "benchmarks.gpu",
}

app = typer.Typer(no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False)


@app.callback()
def benchmarks() -> None:
    """Measure a running server (`quality`, `load`), the evaluator's engine, its scheduler, a GPU."""


def main() -> None:
    """Run the command asked for; PyTorch and Ray are loaded for those alone that need them."""
    asked = sys.argv[1] if len(sys.argv) > 1 else ""
    for name in [asked] if asked in COMMANDS else COMMANDS:
        app.command()(getattr(import_module(COMMANDS[name]), name.replace("-", "_")))
    app()


if __name__ == "__main__":
    main()
