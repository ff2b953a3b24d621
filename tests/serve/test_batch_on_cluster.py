"""`crag batch` by real actors of Ray Data, with a server on loopback."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from deployments.cli import app
from tests.benchmarks.servers import answers, serving_on_thread

pytestmark = pytest.mark.serve


def test_actors_answer_every_line_once_and_resume(tmp_path: Path) -> None:
    source, out = tmp_path / "in.jsonl", tmp_path / "out"
    source.write_text("".join(f'{{"id": {i}, "question": "Who is {i}?"}}\n' for i in range(25)), "utf-8")
    with serving_on_thread(answers) as port:
        arguments = ["batch", str(source), str(out), "--url", f"http://127.0.0.1:{port}", "--block", "4"]
        first = CliRunner().invoke(app, [*arguments, "--json"])
        (out / "part-0000-000003.jsonl").unlink()
        second = CliRunner().invoke(app, [*arguments, "--json"])
    assert first.exit_code == 0, first.output
    assert json.loads(first.stdout) == json.loads(second.stdout)
    assert json.loads(first.stdout) == {"parts": 7, "parts_wanted": 7, "records": 25, "errors": 0}
    records = [
        json.loads(line)
        for path in sorted(out.glob("part-*"))
        for line in path.read_text("utf-8").splitlines()
    ]
    assert [record["id"] for record in records] == list(range(25))
