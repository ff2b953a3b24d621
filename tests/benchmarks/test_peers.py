"""Peers: rounds are interleaved, unequal replies have no figures, plain models score as ours do."""

import asyncio
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from zipfile import ZipFile

import psutil
import pytest
from aiohttp import web

from benchmarks.peer_environment import PeerNotInstalled, peer_python
from benchmarks.peers.contest import Contest, Reply
from benchmarks.peers.contestants import HttpContestant, ProgramContestant, program
from benchmarks.peers.equality import compared
from benchmarks.peers.evaluator import Probabilities
from benchmarks.peers.plain_models import plain_evaluator
from benchmarks.peers.result import Result, held, markdown
from benchmarks.server_process import ServerProcess, free_port, running
from crag_core.context import RequestContext
from crag_core.types import Passage
from deployments.backends.batching.pair_scorer import score_passages
from deployments.backends.evaluators.evaluator_manifest import EvaluatorKind
from deployments.backends.evaluators.scorer import load_scorer
from deployments.settings import EvaluatorSettings
from tests.benchmarks.servers import serving_on_thread
from tests.checkpoints import MINILM, make_t5, write_tiny_manifest

ROOT = Path(__file__).parents[2]
PASSAGES = [
    Passage("Henry Feilden was a Conservative politician in Blackburn.", "Henry Feilden"),
    Passage(""),
    Passage("A naturalist.", "Henry Wemyss Feilden"),
]


@dataclass
class FakeContestant:
    """Replies by a table, or says what it was asked."""

    name: str
    at_once: int = 4
    is_serial: bool = False
    replies: dict[str, Reply] = field(default_factory=dict)
    asked: list[tuple[str, ...]] = field(default_factory=list)

    def ask(self, works: Sequence[str], at_once: int) -> list[Reply]:
        self.asked.append((*works, str(at_once)))
        return [self.replies.get(work, Reply(work, work)) for work in works]

    def cpu_s(self) -> float:
        return 0.1 * sum(map(len, self.asked))


def contest_of(*contestants: FakeContestant) -> Result:
    told: list[str] = []
    contest = Contest(contestants, told.append)
    return held("T", "question", contest, ["warm"], list("abcd"), 2, str)


def test_everyone_has_a_turn_in_every_round_on_work_of_its_own() -> None:
    ours, peer = FakeContestant("ours"), FakeContestant("peer", is_serial=True)
    result = contest_of(ours, peer)
    assert peer.asked == [("warm", "4"), ("a", "b", "4"), ("c", "d", "4")]
    assert ours.asked == [*peer.asked, ("a", "b", "c", "d", "1")], "its texts, one at a time"
    assert result.is_equal and result.works == 4
    assert [row.contestant for row in result.rows] == ["ours", "peer"]


def test_who_begins_changes_from_round_to_round() -> None:
    order: list[str] = []
    contest = Contest([FakeContestant("x"), FakeContestant("y")], order.append)
    contest.hold([], [["a"], ["b"]])
    assert [line.split(": ")[1] for line in order] == ["x", "y", "y", "x"]


@pytest.mark.parametrize("wrong", [Reply("other", "c"), Reply("c", "other")])
def test_a_peer_with_other_replies_has_no_figures(wrong: Reply) -> None:
    ours = FakeContestant("ours")
    result = contest_of(ours, FakeContestant("peer", is_serial=True, replies={"c": wrong}))
    assert not result.is_equal
    text = markdown(result)
    row = next(line for line in text.splitlines() if line.startswith("| peer"))
    assert row.startswith("| peer | - | - | - | - |")
    assert "UNEQUAL" in text and "instead of 'other'" in text


def test_texts_may_differ_under_load_and_decisions_may_not() -> None:
    right = [Reply(1, "a"), Reply(2, "b")]
    loaded = [Reply(1, "a"), Reply(2, "B")]
    equality = compared(["x", "y"], right, loaded, right)
    assert equality.holds and equality.texts_equal_under_load == 1
    assert not compared(["x", "y"], right, [Reply(1, "a"), Reply(3, "b")], right).holds
    assert not compared([], [], [], []).holds, "nothing was compared"


def test_probabilities_are_equal_within_rounding() -> None:
    assert Probabilities((0.5, 0.25)) == Probabilities((0.500001, 0.25))
    assert Probabilities((0.5,)) != Probabilities((0.5001,))
    assert Probabilities((0.5,)) != Probabilities((0.5, 0.5))


@pytest.mark.parametrize("kind", ["t5", "head"])
def test_the_plain_evaluator_scores_as_ours_does(kind: str, tmp_path: Path) -> None:
    settings = EvaluatorSettings.model_validate(
        {"model": "deployments/evaluators/minilm-head", "encoder": str(MINILM)}
    )
    if kind == "t5":
        write_tiny_manifest(make_t5(tmp_path), EvaluatorKind.T5, max_tokens=256)
        settings = EvaluatorSettings.model_validate({"model": str(tmp_path)})
    question = "What is Henry Feilden's occupation?"
    ctx = RequestContext.starting_now("test", 60)
    plain = asyncio.run(plain_evaluator(settings).evaluate(ctx, question, PASSAGES))
    ours = [one.score for one in score_passages(load_scorer(settings), question, PASSAGES)]
    assert plain.scores == pytest.approx(ours, abs=1e-5) and plain.scores[1] is None


def test_a_server_is_asked_so_many_at_a_time_and_a_failure_is_told() -> None:
    most = now = 0

    async def count(request: web.Request) -> web.Response:
        nonlocal most, now
        body = await request.json()
        if body["n"] < 0:
            return web.Response(status=500, text="no")
        now += 1
        most = max(most, now)
        await asyncio.sleep(0.02)
        now -= 1
        return web.json_response(body)

    with serving_on_thread(count) as port:
        contestant: HttpContestant[int] = HttpContestant(
            "server",
            ServerProcess(f"http://127.0.0.1:{port}", psutil.Process()),
            "/",
            lambda n: {"n": n},
            lambda reply: Reply(reply["n"]),
            at_once=3,
        )
        assert [reply.decided for reply in contestant.ask(range(9), 3)] == list(range(9))
        assert most == 3
        with pytest.raises(RuntimeError, match="server answered 500: no"):
            contestant.ask([-1], 1)
    with pytest.raises(RuntimeError, match="server did not answer"):
        contestant.ask([1], 1)


def test_a_program_is_given_the_list_and_its_end_is_told() -> None:
    code = (
        "import json, sys\n"
        "for line in sys.stdin: print(json.dumps(json.loads(line)[::-1]), flush=True); break\n"
    )
    with program([sys.executable, "-c", code], {}) as process:
        contestant: ProgramContestant[int] = ProgramContestant(
            "script", process, lambda n: {"n": n}, lambda reply: Reply(reply["n"])
        )
        assert [reply.decided for reply in contestant.ask([1, 2], 1)] == [2, 1]
        assert contestant.cpu_s() >= 0
        with pytest.raises((RuntimeError, BrokenPipeError)):
            contestant.ask([1], 1)


def test_a_server_runs_until_the_block_ends() -> None:
    port = free_port()
    command = [sys.executable, "-m", "http.server", str(port), "--bind", "127.0.0.1"]
    with running(command, port, "/", stops_within_s=5) as server:
        assert server.cpu_s() > 0
        assert [name for _, name in server.cpu_s_by_process()]
    assert not server.process.is_running()


def test_a_server_that_ends_at_once_is_told_with_its_log() -> None:
    command = [sys.executable, "-c", "print('no such model'); raise SystemExit(3)"]
    with pytest.raises(RuntimeError, match="no such model"), running(command, free_port(), "/"):
        pass


def test_a_peers_environment_has_its_package_and_the_projects(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("benchmarks.peer_environment._FOLDER", tmp_path / "peers")
    wheel = tmp_path / "a_peer-1-py3-none-any.whl"
    described = {
        "METADATA": "Metadata-Version: 2.1\nName: a-peer\nVersion: 1\n",
        "WHEEL": "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        "RECORD": "",
    }
    with ZipFile(wheel, "w") as packed:
        packed.writestr("a_peer.py", "import pydantic, benchmarks; print('both')\n")
        for name, content in described.items():
            packed.writestr(f"a_peer-1.dist-info/{name}", content)
    python = peer_python("a-peer", str(wheel))
    run = subprocess.run([python, "-m", "a_peer"], capture_output=True, text=True, check=True, cwd=ROOT)
    assert run.stdout == "both\n" and Path(python).is_relative_to(tmp_path)
    wheel.unlink()
    assert peer_python("a-peer", str(wheel)) == python, "installed once"
    with pytest.raises(PeerNotInstalled, match="could not install"):
        peer_python("missing", str(tmp_path / "nothing-here.whl"))
    assert not (tmp_path / "peers" / "missing-").exists(), "nothing half installed counts"
