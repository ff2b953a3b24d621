"""Every metric of ours is recorded somewhere: declared alone, its panel would stay empty for ever."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from deployments.observability import registry
from deployments.observability.declaring import Counter, Gauge, Histogram, Metric, Origin

ROOT = Path(__file__).parents[2]
PACKAGE = "deployments.observability.metrics"
RECORDING = {"count": Counter, "count_to": Counter, "observe": Histogram, "show": Gauge}
OWN = [metric for metric in registry.metrics() if metric.origin is not Origin.FOREIGN]


def declared() -> dict[str, Metric]:
    """Every metric by the full name of its constant."""
    return {
        f"{module.__name__}.{name}": value
        for module in registry._MODULES
        for name, value in vars(module).items()
        if isinstance(value, Metric)
    }


def recorded(source: str) -> Iterator[tuple[str, str]]:
    """The methods of a meter that are called in a module, each with the full name of its metric."""
    tree = ast.parse(source)
    imported = {
        alias.asname or alias.name: f"{node.module}.{alias.name}"
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.args:
            match node.args[0]:
                case ast.Attribute(value=ast.Name(id=module), attr=name):
                    yield node.func.attr, f"{imported.get(module)}.{name}"
                case ast.Name(id=name):
                    yield node.func.attr, imported.get(name, name)


@pytest.fixture(scope="module")
def methods() -> dict[str, set[str]]:
    """By which methods each metric is recorded, by its name."""
    constants = declared()
    found: dict[str, set[str]] = {}
    for package in ("deployments", "benchmarks"):
        for path in (ROOT / package).rglob("*.py"):
            for method, constant in recorded(path.read_text("utf-8")):
                if method in RECORDING and constant in constants:
                    found.setdefault(constants[constant].name, set()).add(method)
    return found


@pytest.mark.parametrize("metric", OWN, ids=lambda metric: metric.name)
def test_a_metric_is_recorded_as_what_it_is(metric: Metric, methods: dict[str, set[str]]) -> None:
    kinds = {RECORDING[method] for method in methods.get(metric.name, set())}
    assert kinds == {type(metric)}, f"no module records {metric.name}, or not as what it is"
