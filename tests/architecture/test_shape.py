"""The shape of the house: rules that the import contracts cannot say."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SOURCES = sorted(
    path
    for package in ("crag_core", "deployments", "explainability", "benchmarks", "training")
    for path in (ROOT / package).rglob("*.py")
)
CORE = [
    ".".join(path.relative_to(ROOT).with_suffix("").parts)
    for path in SOURCES
    if path.is_relative_to(ROOT / "crag_core") and path.name != "__init__.py"
]
FRAMEWORKS = ("ray", "vllm", "torch", "transformers", "aiohttp", "fastapi", "lancedb", "deployments")


@pytest.mark.parametrize("module", CORE)
def test_a_core_module_loads_no_framework(module: str) -> None:
    program = f"import sys, {module}; print(*sys.modules)"
    loaded = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, cwd=ROOT
    ).stdout.split()
    assert not {name for name in loaded if name.split(".")[0] in FRAMEWORKS}


def test_the_command_line_loads_no_lancedb() -> None:
    """`crag serve` forks Ray's processes, and LanceDB's threads do not survive a fork."""
    program = "import sys, deployments.cli; print(*sys.modules)"
    loaded = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, cwd=ROOT
    ).stdout.split()
    assert not {"lancedb", "torch", "vllm"} & set(loaded)


def files_with(pattern: str) -> set[str]:
    return {
        str(path.relative_to(ROOT))
        for path in SOURCES
        if re.search(pattern, path.read_text("utf-8"), re.MULTILINE)
    }


@pytest.mark.parametrize(
    ("pattern", "only"),
    [
        (r"\.remote\(", {"deployments/calls.py", "deployments/shared_actors.py"}),
        (r"\.bind\(\*?\w", {"deployments/app.py", "deployments/local.py"}),
        # the MediaWiki client reads the statuses of others
        (r"HTTPStatus", {"deployments/api/errors.py", "deployments/backends/wikipedia/retry.py"}),
        (r"ray\.util import metrics", {"deployments/observability/exporters.py"}),
        (r"^from __future__ import annotations", set()),
        (
            r"time\.time\(|time_ns\(|datetime\.now\(",
            # only dates that are shown or sent: a clock that jumps must change no deadline and no wait
            {
                "deployments/api/openai.py",
                "deployments/api/openai_reply.py",
                "deployments/backends/wikipedia/session.py",
                "deployments/observability/tracing.py",
                "benchmarks/load/report.py",
                "benchmarks/published.py",
            },
        ),
        (
            r"except (Base)?Exception\b|except:",
            {
                "deployments/api/errors.py",  # bugs become a JSON body
                "deployments/api/openai_reply.py",  # ... or an error event in mid-stream
                "deployments/backends/batching/device_thread.py",  # a failing batch is bisected
                "deployments/backends/batching/prepare_thread.py",  # ... or told to its caller
                "deployments/readiness.py",  # a probe outlives whatever it meets
            },
        ),
    ],
    ids=["remote", "bind", "statuses", "metrics", "postponed", "wall-clock", "broad-except"],
)
def test_one_place_for(pattern: str, only: set[str]) -> None:
    assert files_with(pattern) <= only


def test_only_starters_touch_the_environment() -> None:
    starters = {
        "deployments/app.py",
        "deployments/local.py",
        "deployments/in_process.py",
        "benchmarks/server_process.py",  # Ray reads its serving modes there
        "benchmarks/drill/two_nodes.py",  # and how far its workers yield, there
        "benchmarks/cancellation/slow_app.py",  # its leaves are told there where to note what happens
    }
    assert files_with(r"os\.environ|getenv") <= starters
