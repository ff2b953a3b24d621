"""Whole answers: this project's graph against the plain CRAG, as a script, behind FastAPI, LitServe."""

import json
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from copy import deepcopy
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

import yaml

from benchmarks.engine.litserve_peer import LITSERVE
from benchmarks.engine.shapes import Shape
from benchmarks.peer_environment import peer_python
from benchmarks.peers.contest import Contestant, Reply
from benchmarks.peers.contestants import HttpContestant, ProgramContestant, program
from benchmarks.peers.t5_checkpoint import t5_evaluator
from benchmarks.served_application import Config, served
from benchmarks.server_process import free_port, running
from deployments.settings import AppSettings

OURS = "this server"
_ENCYCLOPEDIA = Path("examples/encyclopedia")
_CALIBRATION_QUESTIONS = 24
_COMPACT_DEPLOYMENTS = ("CompactGraph", "AtomicQARetriever", "HopReader")


class PeerName(StrEnum):
    """Who else answers questions: the plain CRAG, in three forms."""

    FASTAPI = "fastapi"
    LITSERVE = "litserve"
    SCRIPTS = "scripts"

    @property
    def label(self) -> str:
        """As tables name it."""
        return {"fastapi": "FastAPI", "litserve": "LitServe", "scripts": "the papers' scripts' way"}[
            self
        ]


@dataclass(frozen=True, slots=True)
class Asked:
    """One question as `/v1/answer` takes it."""

    question: str
    max_new_tokens: int

    def body(self) -> Mapping[str, Any]:
        """Without a trace: no peer keeps one."""
        options = {"max_new_tokens": self.max_new_tokens}
        return {"question": self.question, "options": options, "trace": False, "timeout_s": 300}


def sample_questions(count: int, skip: int = 0) -> list[str]:
    """So many different questions on the sample encyclopedia."""
    lines = (_ENCYCLOPEDIA / "questions.jsonl").read_text("utf-8").splitlines()
    questions = list(dict.fromkeys(json.loads(line)["question"] for line in lines))
    if len(questions) < skip + count:
        raise ValueError(f"the sample encyclopedia has {len(questions)} questions, not {skip + count}")
    return questions[skip : skip + count]


def without_compact(config: Config) -> Config:
    """The config without pipeline `compact`, which no peer has."""
    slim = deepcopy(config)
    application = slim["applications"][0]
    application["args"].pop("compact", None)
    application["deployments"] = [
        one for one in application["deployments"] if one["name"] not in _COMPACT_DEPLOYMENTS
    ]
    return slim


def with_t5(config: Config, dtype: str) -> Config:
    """The config with a T5 of the small shape as its evaluator, on every core."""
    changed = deepcopy(config)
    args = changed["applications"][0]["args"]
    settings = AppSettings.model_validate(args)
    texts = [
        row["text"]
        for name in ("corpus", "snapshot")
        for row in map(json.loads, (_ENCYCLOPEDIA / f"{name}.jsonl").read_text("utf-8").splitlines())
    ]
    known = sample_questions(_CALIBRATION_QUESTIONS)
    folder = t5_evaluator(Shape.SMALL, dtype, [*texts, *known], known, settings.retriever)
    args["evaluator"] = {"model": str(folder), "threads": 2}
    return changed


@contextmanager
def contestants(
    config: Config, peers: Sequence[PeerName], at_once: int
) -> Iterator[list[Contestant[Asked]]]:
    """This server first, then the peers, all of them running."""
    with ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="peers-"))
        file = Path(folder, "config.yaml")
        file.write_text(yaml.safe_dump(config), "utf-8")
        # threads that wait must not spin, in a peer as here: on a shared machine that costs a factor
        env: dict[str, str] = config["applications"][0]["runtime_env"]["env_vars"]
        ours = stack.enter_context(served(config))
        found: list[Contestant[Asked]] = [
            HttpContestant(OURS, ours, "/v1/answer", Asked.body, reply_of, at_once)
        ]
        found += [_started(stack, name, file, env, at_once) for name in peers]
        yield found


def reply_of(answer: Any) -> Reply:
    """Action, evidence and rungs are decided; the text is the generator's."""
    cited = [(c["document_id"], c["start"], c["end"], c["text"]) for c in answer["citations"]]
    rungs = [rung["reason"] for rung in answer["degraded"]]
    return Reply((answer["action"], cited, rungs), answer["answer"])


def _started(
    stack: ExitStack, name: PeerName, config: Path, env: Mapping[str, str], at_once: int
) -> Contestant[Asked]:
    match name:
        case PeerName.FASTAPI:
            command = [sys.executable, "-m", "benchmarks.peers.fastapi_app", str(config)]
            path = "/answer"
        case PeerName.LITSERVE:
            python = peer_python("litserve", *LITSERVE)
            command = [python, "-m", "benchmarks.peers.litserve_app", str(config)]
            path = "/predict"
        case PeerName.SCRIPTS:
            command = [sys.executable, "-m", "benchmarks.peers.scripts_way", str(config)]
            process = stack.enter_context(program(command, env))
            return ProgramContestant(name.label, process, Asked.body, reply_of)
    port = free_port()
    server = stack.enter_context(
        running([*command, str(port)], port, "/health", env=env, stops_within_s=5)
    )
    return HttpContestant(name.label, server, path, Asked.body, reply_of, at_once, is_serial=True)
