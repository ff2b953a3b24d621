"""`python -m benchmarks`."""

import signal
import sys
from importlib import import_module

import typer

COMMANDS = {
    "quality": "benchmarks.quality.command",
    "load": "benchmarks.load.command",
    "attack": "benchmarks.attack.command",
    "wikipedia-stub": "benchmarks.load.wikipedia_stub",
    "timed-server": "benchmarks.load.timed_server",
    "search": "benchmarks.search",
    "search-pool": "benchmarks.search_pool",
    "overhead": "benchmarks.overhead.overhead",
    "overload": "benchmarks.overload.command",
    "cancellation": "benchmarks.cancellation.command",
    "metrics-cost": "benchmarks.metrics_cost",
    "drill": "benchmarks.drill.command",
    "tail": "benchmarks.load.tail",
    "peers": "benchmarks.peers.command",
    "ablation": "benchmarks.ablation.command",
    "soak": "benchmarks.soak",
    "engine": "benchmarks.engine.command",
    "scheduler": "benchmarks.scheduler",
    "hangups": "benchmarks.hangups",
    "explain": "benchmarks.explain",
    "explain-delay": "benchmarks.explain_delay",
    "gpu": "benchmarks.gpu",
    "compact-coverage": "benchmarks.compact.coverage",
    "compact-cost": "benchmarks.compact.cost",
    "compact-plans": "benchmarks.compact.model_plans",
    "compact-fuzz": "benchmarks.compact.fuzz",
    "golden-metrics": "benchmarks.golden_metrics",
}

app = typer.Typer(no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False)


@app.callback()
def benchmarks() -> None:
    """Measure a server (`quality`, `load`, `attack`), or a part: searching, serving, a GPU."""


def main() -> None:
    """Run the command asked for; PyTorch and Ray are loaded for those alone that need them."""
    # SIGTERM ends as Ctrl-C does, so that what a benchmark has started is stopped with it
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    asked = sys.argv[1] if len(sys.argv) > 1 else ""
    for name in [asked] if asked in COMMANDS else COMMANDS:
        app.command()(getattr(import_module(COMMANDS[name]), name.replace("-", "_")))
    app()


if __name__ == "__main__":
    main()
