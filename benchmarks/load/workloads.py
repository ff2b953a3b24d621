"""What is sent: the workloads W1 to W8, and question sets; seed and number decide a request."""

import json
import random
from bisect import bisect
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from itertools import accumulate
from typing import TYPE_CHECKING, Any

from benchmarks.load import texts
from benchmarks.load.questions import read_asked

if TYPE_CHECKING:
    from benchmarks.load.settings import LoadSettings, WorkloadSettings

_POOL = 2_000
"""Documents made at the start; questions are new each time, so no pair of the two comes twice."""
_DOCUMENTS = 10
_PASSAGE_TOKENS = 155
_ZIPF_QUESTIONS, _ZIPF_EXPONENT = 1_000, 1.1
_SKEWED_TOKENS = (20, 512)
_FAR = 1e6
"""Beyond any logit: thresholds there decide the action whatever the evaluator says."""
_POPQA_ACTIONS = {"correct": 0.544, "ambiguous": 0.274, "incorrect": 0.182}
_ARC_ACTIONS = {"ambiguous": 0.883, "correct": 0.117}
_THRESHOLDS = {
    "correct": {"upper": -_FAR, "lower": -2 * _FAR},
    "ambiguous": {"upper": _FAR, "lower": -_FAR},
    "incorrect": {"upper": 2 * _FAR, "lower": _FAR},
}


class WorkloadName(StrEnum):
    """The workloads."""

    W1 = "w1"
    """Ten passages of 155 tokens to score, nothing else."""
    W2 = "w2"
    """Whole answers over ten given documents; actions as on PopQA."""
    W3 = "w3"
    """W2 with lengths of 20 to 512 tokens and repeated questions (Zipf): what a cache is worth."""
    W4 = "w4"
    """One passage to score: latency."""
    W5 = "w5"
    """W2 beside explanations in the background."""
    W6 = "w6"
    """W2 with the actions of ARC-Challenge, so that most answers search."""
    W7 = "w7"
    """W2 at twice the rate given, which is to be the capacity."""
    W8 = "w8"
    """W2 with 10 % of the clients hanging up."""
    DATA = "data"
    """A question set."""

    @property
    def rate_factor(self) -> float:
        """What the rate is multiplied by."""
        return 2.0 if self is WorkloadName.W7 else 1.0


class Kind(StrEnum):
    """The routes."""

    ANSWER = "answer"
    CHAT = "chat"
    RERANK = "rerank"
    EXPLAIN = "explain"

    @property
    def path(self) -> str:
        """Where it is posted."""
        return "/v1/chat/completions" if self is Kind.CHAT else f"/v1/{self}"


@dataclass(frozen=True, slots=True)
class Prepared:
    """A request ready to be sent."""

    kind: Kind
    body: bytes
    is_streamed: bool = False
    hang_up_after_s: float | None = None
    is_background: bool = False


@dataclass(frozen=True, slots=True)
class Workload:
    """Makes the n-th request, and the n-th of the background where there is one."""

    request: Callable[[int], Prepared]
    background: Callable[[int], Prepared] | None = None


def workload(settings: "LoadSettings") -> Workload:
    """The workload of a run. Raises OSError and ValueError for a question set that cannot be read."""
    wanted, seed = settings.workload, settings.seed
    maker = _Maker(wanted, seed, settings.luck)
    match wanted.name:
        case WorkloadName.W1:
            return Workload(lambda index: maker.ranking(index, _DOCUMENTS))
        case WorkloadName.W4:
            return Workload(lambda index: maker.ranking(index, 1))
        case WorkloadName.W3:
            return Workload(maker.skewed)
        case WorkloadName.W5:
            return Workload(lambda index: maker.answer(index, _POPQA_ACTIONS), maker.explanation)
        case WorkloadName.W6:
            return Workload(lambda index: maker.answer(index, _ARC_ACTIONS))
        case WorkloadName.W2 | WorkloadName.W7 | WorkloadName.W8:
            return Workload(lambda index: maker.answer(index, _POPQA_ACTIONS))
        case WorkloadName.DATA:
            return Workload(_from_data(maker, wanted, seed))


class _Maker:
    """Makes requests out of a pool of documents."""

    def __init__(self, wanted: "WorkloadSettings", seed: int, luck: int) -> None:
        """`seed` decides texts, `luck` actions and hang-ups."""
        self._wanted, self._seed, self._luck = wanted, seed, luck

    @cached_property
    def _biographies(self) -> list[str]:
        random_ = random.Random(f"biographies/{self._seed}")
        return [texts.biography(random_) for _ in range(_POOL)]

    @cached_property
    def _passages(self) -> list[str]:
        random_ = random.Random(f"passages/{self._seed}")
        return [texts.passage(random_, _PASSAGE_TOKENS) for _ in range(_POOL)]

    @cached_property
    def _zipf(self) -> list[float]:
        weights = (rank**-_ZIPF_EXPONENT for rank in range(1, _ZIPF_QUESTIONS + 1))
        return list(accumulate(weights))

    def ranking(self, index: int, documents: int) -> Prepared:
        """A question and passages to score."""
        random_ = self._random("request", index)
        body = {"query": texts.question(random_), "documents": random_.sample(self._passages, documents)}
        return Prepared(Kind.RERANK, _json(body), hang_up_after_s=self._hang_up_after_s(index))

    def answer(self, index: int, actions: dict[str, float]) -> Prepared:
        """A question with ten documents, and an action drawn for it."""
        random_ = self._random("request", index)
        documents = random_.sample(self._biographies, _DOCUMENTS)
        action = _drawn(random.Random(f"action/{self._luck}/{index}"), actions)
        return self._asked(index, texts.question(random_), documents, action)

    def skewed(self, index: int) -> Prepared:
        """A question as popular as its rank, always with the same documents and action."""
        mass = self._random("request", index).random() * self._zipf[-1]
        random_ = self._random("question", bisect(self._zipf, mass))
        shortest, longest = _SKEWED_TOKENS
        lengths = [round(shortest * (longest / shortest) ** random_.random()) for _ in range(_DOCUMENTS)]
        documents = [texts.passage(random_, tokens) for tokens in lengths]
        return self._asked(index, texts.question(random_), documents, _drawn(random_, _POPQA_ACTIONS))

    def explanation(self, index: int) -> Prepared:
        """One passage whose score is to be explained, in the background."""
        random_ = self._random("background", index)
        body = {"question": texts.question(random_), "passage": random_.choice(self._biographies)}
        return Prepared(Kind.EXPLAIN, _json(body), is_background=True)

    def posed(self, index: int, question: str, fields: dict[str, Any]) -> Prepared:
        """A question on the route that is wanted."""
        wanted = self._wanted
        options = fields.get("options", {})
        if wanted.max_new_tokens is not None:
            options = options | {"max_new_tokens": wanted.max_new_tokens}
        fields = fields | ({"options": options} if options else {})
        if wanted.is_streamed:
            body = {
                "model": wanted.pipeline,
                "messages": [{"role": "user", "content": question}],
                "stream": True,
                "stream_options": {"include_usage": True},
                "crag": fields,
            }
        else:
            body = {"question": question, "pipeline": wanted.pipeline, **fields}
        kind = Kind.CHAT if wanted.is_streamed else Kind.ANSWER
        return Prepared(kind, _json(body), wanted.is_streamed, self._hang_up_after_s(index))

    def _asked(self, index: int, question: str, documents: list[str], action: str) -> Prepared:
        # strips of made-up text score low: without this none would be kept, and no answer written
        options = {"thresholds": _THRESHOLDS[action], "strip_min_score": -3 * _FAR}
        return self.posed(index, question, {"documents": documents, "options": options})

    def _hang_up_after_s(self, index: int) -> float | None:
        wanted = self._wanted
        share = wanted.hang_up_share or (0.1 if wanted.name is WorkloadName.W8 else 0.0)
        if not share:
            return None
        random_ = random.Random(f"hang-up/{self._luck}/{index}")
        return random_.random() * wanted.hang_up_within_s if random_.random() < share else None

    def _random(self, what: str, index: int) -> random.Random:
        return random.Random(f"{what}/{self._seed}/{index}")


def _from_data(maker: _Maker, wanted: "WorkloadSettings", seed: int) -> Callable[[int], Prepared]:
    """The set's questions in a shuffled order, anew for each pass through it."""
    assert wanted.data is not None
    asked = read_asked(wanted.data, wanted.data_name, with_documents=wanted.with_documents)
    orders: dict[int, list[int]] = {}

    def request(index: int) -> Prepared:
        lap, place = divmod(index, len(asked))
        if lap not in orders:
            orders.clear()
            orders[lap] = random.Random(f"order/{seed}/{lap}").sample(range(len(asked)), len(asked))
        row = asked[orders[lap][place]]
        return maker.posed(index, row.question, row.fields)

    return request


def _drawn(random_: random.Random, shares: dict[str, float]) -> str:
    return random_.choices(list(shares), weights=list(shares.values()))[0]


def _json(body: dict[str, Any]) -> bytes:
    return json.dumps(body, separators=(",", ":")).encode()
