"""`python -m benchmarks search` on a real wiki: it runs, and counts what it says it counts."""

import json
import re
from pathlib import Path

from typer import Typer
from typer.testing import CliRunner

from benchmarks.search import search
from tests.mediawiki.local_wiki import LocalWiki


def test_ours_and_the_reproductions_way_are_compared(mediawiki: LocalWiki, tmp_path: Path) -> None:
    row = {
        "id": "1",
        "question": "What is Henry Feilden's occupation?",
        "answers": ["politician"],
        "s_wiki_title": "Henry Feilden (Conservative politician)",
    }
    (tmp_path / "popqa.jsonl").write_text(json.dumps(row) + "\n", "utf-8")
    app = Typer()
    app.command()(search)
    result = CliRunner().invoke(app, ["--data", str(tmp_path), "--wiki", mediawiki.api_url])
    assert result.exit_code == 0, result.output
    assert "1 of the gold pages are in the wiki" in result.output
    ours, theirs = re.findall(r"^\| (?:ours|reproduction) \| .*%.*\|$", result.output, re.M)[-2:]
    assert ours.split("|")[2].strip().startswith("100.0 %")
    requests, theirs_requests = (float(line.split("|")[6]) for line in (ours, theirs))
    assert 1 <= requests < theirs_requests
