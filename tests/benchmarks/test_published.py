"""Results come with the command, the machine and the versions behind them, in both forms."""

import json
from pathlib import Path

import pytest

from benchmarks.published import Published


def test_both_forms_are_written_and_one_is_printed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.argv", ["benchmarks", "peers", "--rounds", "3", "--json"])
    published = Published("peers", {"rows": [1, 2]}, "## Peers")
    published.show(as_json=True, out=tmp_path)
    written = json.loads((tmp_path / "peers.json").read_text("utf-8"))
    assert json.loads(capsys.readouterr().out) == written
    assert written["rows"] == [1, 2] and written["command"] == "python -m benchmarks peers --rounds 3"
    assert "python" in written["versions"] and "cores" in written["machine"]
    text = (tmp_path / "peers.md").read_text("utf-8")
    assert text.startswith("## Peers") and "`python -m benchmarks peers --rounds 3`" in text
    published.show(as_json=False, out=None)
    assert capsys.readouterr().out.startswith("## Peers")
    assert {path.name for path in tmp_path.iterdir()} == {"peers.json", "peers.md"}
