"""Replicas are killed and a node is lost under load: no request fails."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.serve

ROOT = Path(__file__).parents[2]


def test_no_request_fails_when_replicas_die_settings_change_or_a_node_is_lost() -> None:
    command = [sys.executable, "-m", "benchmarks", "drill", "--rate", "1", "--after-s", "5", "--json"]
    for scene in ("kill-replicas", "rolling-update", "lose-node"):
        command += ["--scene", scene]
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=900)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    happened = json.loads(ended.stdout)
    assert [each["failed"] for each in happened] == [0, 0, 0]
    assert all(each["requests"] > 5 for each in happened)
    assert "every replica was replaced" in happened[1]["what"]
