"""Results come with the command, the machine and the versions behind them, in both forms."""

import json
from pathlib import Path

import pytest

from benchmarks.published import Published


def test_both_forms_are_written_and_one_is_printed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    given = ["x", "peers", "--data", "/mine", "--rounds", "3", "--json", "--out", "o"]
    monkeypatch.setattr("sys.argv", given)
    command = "python -m benchmarks peers --data DIR --rounds 3"
    published = Published("peers", {"rows": [1, 2]}, "## Peers")
    published.show(as_json=True, out=tmp_path)
    written = json.loads((tmp_path / "peers.json").read_text("utf-8"))
    assert json.loads(capsys.readouterr().out) == written
    assert written["rows"] == [1, 2] and written["command"] == command
    assert "python" in written["versions"] and "cores" in written["machine"]
    text = (tmp_path / "peers.md").read_text("utf-8")
    assert text.startswith("## Peers") and f"`{command}`" in text
    published.show(as_json=False, out=None)
    assert capsys.readouterr().out.startswith("## Peers")
    assert {path.name for path in tmp_path.iterdir()} == {"peers.json", "peers.md"}
