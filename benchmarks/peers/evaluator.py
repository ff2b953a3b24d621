"""The evaluator alone, as a reranking server: `/v1/rerank` against infinity's `/classify`."""

import math
import random
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.load import texts
from benchmarks.peer_environment import peer_python
from benchmarks.peers import instant_stages
from benchmarks.peers.answers import OURS
from benchmarks.peers.contest import Contestant, Reply
from benchmarks.peers.contestants import HttpContestant
from benchmarks.served_application import Config, served
from benchmarks.server_process import free_port, running

INFINITY = "infinity"
_REQUIREMENTS = ("infinity-emb==0.0.78", "orjson==3.13.0")
_NO_TELEMETRY = {"DO_NOT_TRACK": "1", "INFINITY_ANONYMOUS_USAGE_STATS": "0"}
_PASSAGES = 10
_TOLERANCE = 1e-5


@dataclass(frozen=True, slots=True)
class Ranked:
    """A question with passages to score."""

    question: str
    passages: tuple[str, ...]

    @classmethod
    def made_up(cls, number: int) -> "Ranked":
        """The n-th, of ten passages of about a hundred words."""
        random_ = random.Random(f"ranked/{number}")
        passages = tuple(texts.biography(random_) for _ in range(_PASSAGES))
        return cls(texts.question(random_), passages)

    def rerank(self) -> Mapping[str, Any]:
        """For `/v1/rerank`."""
        return {"query": self.question, "documents": list(self.passages)}

    def classify(self) -> Mapping[str, Any]:
        """For `/classify`: the pairs as the T5 reads them."""
        joined = [f"{self.question} [SEP] {passage}" for passage in self.passages]
        return {"model": "default/not-specified", "input": joined, "raw_scores": True}


@dataclass(frozen=True, slots=True, eq=False)
class Probabilities:
    """Scores squashed as a one-label classifier is; equal when none differs by more than 1e-5."""

    values: tuple[float, ...]

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Probabilities) or len(self.values) != len(other.values):
            return False
        pairs = zip(self.values, other.values, strict=True)
        return all(abs(mine - theirs) <= _TOLERANCE for mine, theirs in pairs)


@contextmanager
def contestants(config: Config, at_once: int) -> Iterator[list[Contestant[Ranked]]]:
    """This server's evaluator first, then infinity's, both running."""
    ours = deepcopy(config)
    application = ours["applications"][0]
    application["import_path"] = f"{instant_stages.__name__}:build_evaluator_app"
    model = str(Path(application["args"]["evaluator"]["model"]).absolute())
    port = free_port()
    python = peer_python(INFINITY, *_REQUIREMENTS)
    command = [python, "-m", "benchmarks.peers.infinity_app", model, str(port)]
    with served(ours) as graph, running(command, port, "/health", env=_NO_TELEMETRY) as theirs:
        yield [
            HttpContestant(OURS, graph, "/v1/rerank", Ranked.rerank, _of_ranking, at_once),
            HttpContestant(INFINITY, theirs, "/classify", Ranked.classify, _of_classes, at_once),
        ]


def _of_ranking(ranking: Any) -> Reply:
    ordered = sorted(ranking["results"], key=lambda result: result["index"])
    logits = [result["relevance_score"] for result in ordered]
    return Reply(Probabilities(tuple(1 / (1 + math.exp(-logit)) for logit in logits)))


def _of_classes(classified: Any) -> Reply:
    return Reply(Probabilities(tuple(classes[0]["score"] for classes in classified["data"])))
