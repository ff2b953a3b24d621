"""The served application answers the sample questions no worse than when its baseline was written."""

import subprocess

import pytest

from tests.serve.conftest import CRAG, ROOT

pytestmark = pytest.mark.serve

RUN = [
    "--data", "examples/encyclopedia", "--name", "questions", "--documents", "retrieved",
    "--search", "snapshot", "--method", "rag", "--method", "crag", "--limit", "24",
    "--max-new-tokens", "40", "--concurrency", "4", "--timeout-s", "280",
    "--baseline", "benchmarks/quality/baselines/embedded.json",
]  # fmt: skip


def test_answers_are_no_worse_than_the_baseline(url: str) -> None:
    gate = subprocess.run(
        [CRAG, "quality", "--url", url, *RUN], cwd=ROOT, capture_output=True, text=True, timeout=1800
    )
    assert gate.returncode == 0, gate.stderr
    compared = [line for line in gate.stderr.splitlines() if line.startswith("ok: questions, ")]
    assert len(compared) == 2, gate.stderr
