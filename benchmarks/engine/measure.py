"""One measurement: every contestant on the same weights and pairs, and whether the scores are right."""

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict, dataclass
from typing import Any

import torch
from transformers import T5ForSequenceClassification

from benchmarks.engine.contest import Contest, products
from benchmarks.engine.contestants import OURS_FP32, REFERENCE, contest_of, reference_places
from benchmarks.engine.decisions import Decisions, decide
from benchmarks.engine.litserve_peer import LitServePeer, litserve_peer
from benchmarks.engine.pairs import LONGEST, pairs_of
from benchmarks.engine.peers import best_batch_size
from benchmarks.engine.shapes import in_dtype, random_t5, t5_config
from benchmarks.engine.workload import Workload
from deployments.backends.t5.packed_t5 import PackedT5
from deployments.backends.t5.t5_engine import T5Engine
from deployments.backends.t5.t5_weights import T5Weights

_WORST_FP64, _WORST_FP32 = 1e-10, 1e-4


@dataclass(frozen=True, slots=True)
class Row:
    """What one contestant reached."""

    name: str
    pairs_per_s: float
    pairs_per_core_s: float
    gflop_per_s: float
    gflop_per_core_s: float
    error: float | None
    """Largest distance to the reference; None where it did not score every pair."""


@dataclass(frozen=True, slots=True)
class Result:
    """Rates, errors and decisions of one run."""

    pairs: int
    tokens: int
    threads: int
    rounds: int
    rows: Sequence[Row]
    decisions: Decisions | None
    """None in float32, whose decisions need no second look."""
    fp64_error: float
    best_batch_size: int
    """Pairs a batch of the peers that were tuned by hand."""
    litserve_http_share: float | None
    """Of LitServe's CPU time with its client, what went outside the process that runs the model."""

    @property
    def is_right(self) -> bool:
        """Whether every score is what it should be; no rate counts otherwise."""
        (fp32_error,) = (row.error for row in self.rows if row.name == OURS_FP32)
        return (
            self.fp64_error <= _WORST_FP64
            and fp32_error is not None
            and fp32_error <= _WORST_FP32
            and (self.decisions is None or self.decisions.are_right)
        )

    def as_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        return asdict(self)


def measure(
    model: T5ForSequenceClassification,
    work: Workload,
    dtype: torch.dtype,
    threads: int,
    seconds: float,
    *,
    with_litserve: bool,
) -> Result:
    """Time all contestants in interleaved rounds: ours and its peers in `dtype`, `model` in float32."""
    ours = T5Engine(model, max_tokens=LONGEST, dtype=dtype, threads=threads)
    decided = None if dtype is torch.float32 else decide(ours, work.known, work.judged)
    cast = in_dtype(model, dtype)
    best_size = best_batch_size(cast, work.timed)
    server: AbstractContextManager[LitServePeer | None] = (
        litserve_peer(cast, threads, best_size) if with_litserve else nullcontext()
    )
    with server as litserve:
        contest = contest_of(model, cast, ours, litserve, best_size, work.timed)
        contest.contestants.append(products(model.config, dtype, threads))
        rounds = contest.hold(seconds)
        http_share = litserve.http_share() if litserve else None
    return Result(
        pairs=len(work.timed),
        tokens=sum(map(len, work.timed)),
        threads=threads,
        rounds=rounds,
        rows=_rows(contest, len(work.timed)),
        decisions=decided,
        fp64_error=worst_fp64_error(range(1, LONGEST + 1)),
        best_batch_size=best_size,
        litserve_http_share=http_share,
    )


def worst_fp64_error(lengths: Sequence[int]) -> float:
    """Largest difference to Hugging Face's own forward in float64, on a tiny T5, all lengths packed."""
    model = random_t5(t5_config(100, 32, 64, 2, 4, 8), torch.float64)
    pairs = pairs_of(lengths, model.config.vocab_size)
    packed = PackedT5(T5Weights.of(model, LONGEST, torch.float64, torch.device("cpu"))).logits(pairs)
    with torch.inference_mode():
        theirs = torch.cat([model(input_ids=torch.tensor([pair])).logits[:, 0] for pair in pairs])
    return float((packed - theirs).abs().max())


def _rows(contest: Contest, pairs: int) -> list[Row]:
    places = reference_places(pairs)

    def error(name: str) -> float | None:
        scores = contest.scores.get(name, [])
        if len(scores) != pairs:
            return None
        expected = contest.scores[REFERENCE]
        return max(abs(scores[i] - e) for i, e in zip(places, expected, strict=True))

    return [
        Row(
            name=one.name,
            pairs_per_s=one.rate(),
            pairs_per_core_s=one.rate(of_cpu=True),
            gflop_per_s=one.gflops(),
            gflop_per_core_s=one.gflops(of_cpu=True),
            error=error(one.name),
        )
        for one in contest.contestants
    ]
