"""The T5 engine against other ways to run the same model: same weights, same pairs, one run."""

import json
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from functools import partial
from statistics import median
from typing import Annotated, Any

import torch
import typer
from rich.console import Console
from torch import Tensor
from transformers import T5Config, T5ForSequenceClassification

from benchmarks.pairs import LONGEST, pairs_of, w2_lengths
from benchmarks.peers_engine import (
    BEST_TOKENS,
    TEI_TOKENS,
    Pairs,
    one_by_one,
    papers_loop,
    tei_like,
    token_budget_sorted,
)
from benchmarks.report import table
from deployments.backends.t5.packed_t5 import PackedT5
from deployments.backends.t5.t5_engine import CPU_TOKENS_PER_PIECE, DecisionSafety, T5Engine
from deployments.backends.t5.t5_weights import Linear, T5Weights
from deployments.backends.t5.worker_threads import WorkerThreads

OURS, OURS_SAFE, OURS_FP32 = "packed bf16", "packed bf16, safe decisions", "packed fp32"
REFERENCE = "Hugging Face fp32, one by one"
PAPERS = "the papers' loop: one by one, padded to 512, fp32"
PEERS = (
    f"Hugging Face bf16, sorted, {BEST_TOKENS} tokens",
    f"TEI's policy bf16, {TEI_TOKENS} tokens",
)
GEMM = "bf16 products of the model's shapes"

_VOCABULARY = 32_128
_MIN_ROUNDS = 3
_REFERENCE_PAIRS = 7
_CALIBRATION_PAIRS = 310
_WORST_FP64, _WORST_FP32 = 1e-10, 1e-4


class Shape(StrEnum):
    """Sizes of T5."""

    SMALL = "small"
    BASE = "base"
    LARGE = "large"

    @property
    def config(self) -> T5Config:
        """The published shape, with one output."""
        width, inner, layers, heads = {
            Shape.SMALL: (512, 2048, 6, 8),
            Shape.BASE: (768, 3072, 12, 12),
            Shape.LARGE: (1024, 4096, 24, 16),
        }[self]
        return _config(_VOCABULARY, width, inner, layers, heads, 64)


def _config(vocabulary: int, width: int, inner: int, layers: int, heads: int, head: int) -> T5Config:
    return T5Config.from_dict(
        {
            "vocab_size": vocabulary,
            "d_model": width,
            "d_ff": inner,
            "num_layers": layers,
            "num_heads": heads,
            "d_kv": head,
            "num_labels": 1,
            "decoder_start_token_id": 0,
        }
    )


def random_t5(
    config: T5Config, dtype: torch.dtype = torch.float32, device: str = "cpu"
) -> T5ForSequenceClassification:
    """A classifier with the random weights that belong to its shape, whatever the dtype."""
    torch.manual_seed(0)
    model: Any = T5ForSequenceClassification(config)
    classifier: T5ForSequenceClassification = model.to(device, dtype).eval()
    return classifier


def useful_flops(config: T5Config, tokens: int) -> int:
    """Multiplications and additions of one unpadded pair in both stacks, nothing left out."""
    d, f, layers = config.d_model, config.d_ff, config.num_layers
    encoder, decoder = 2 * layers * (4 * d * d + 2 * d * f), 2 * layers * (8 * d * d + 2 * d * f)
    attention = 3 * layers * 4 * tokens * d
    return int(tokens * (encoder + decoder + attention))


@dataclass
class Contestant:
    """One way to score pairs, with the seconds of every round: on the clock, and of all cores."""

    name: str
    run: Callable[[], object]
    pairs: int
    flops: int
    clock: list[float] = field(default_factory=list)
    cpu: list[float] = field(default_factory=list)

    def time(self) -> None:
        """Run once and note the seconds."""
        clock, cpu = time.perf_counter(), time.process_time()
        self.run()
        self.clock.append(time.perf_counter() - clock)
        self.cpu.append(time.process_time() - cpu)

    def rate(self, *, of_cpu: bool = False) -> float:
        """Median pairs a second; of CPU time, pairs a core-second."""
        return self.pairs / median(self.cpu if of_cpu else self.clock)

    def gflops(self, *, of_cpu: bool = False) -> float:
        """Median useful GFLOP a second."""
        return self.flops / median(self.cpu if of_cpu else self.clock) / 1e9


def engine(
    shape: Annotated[Shape, typer.Option(help="Size of the T5.")] = Shape.SMALL,
    seconds: Annotated[float, typer.Option(help="Time for the rounds; three are made anyway.")] = 120.0,
    questions: Annotated[int, typer.Option(help="Questions of workload W2, 31 pairs each.")] = 1,
    threads: Annotated[int, typer.Option(help="CPU threads.")] = 2,
    decisions: Annotated[int, typer.Option(help="Pairs whose actions are compared.")] = 310,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of Markdown.")] = False,
) -> None:
    """Pairs a second of the T5 engine and its peers, on random weights; exit 1 if a score is wrong."""
    torch.set_num_threads(threads)
    model = random_t5(shape.config)
    pairs = pairs_of(w2_lengths(questions), _VOCABULARY)
    result = _measure(model, pairs, threads, seconds, decisions)
    result["shape"] = shape
    result["fp64_error"] = worst_fp64_error(range(1, LONGEST + 1))
    if as_json:
        print(json.dumps(result))
    else:
        Console(soft_wrap=True).print(_markdown(result), markup=False, highlight=False)
    if not _is_right(result):
        raise typer.Exit(1)


def worst_fp64_error(lengths: Sequence[int]) -> float:
    """Largest difference to Hugging Face's own forward in float64, on a tiny T5, all lengths packed."""
    model = random_t5(_config(100, 32, 64, 2, 4, 8), torch.float64)
    pairs = pairs_of(lengths, model.config.vocab_size)
    packed = PackedT5(T5Weights.of(model, LONGEST, torch.float64, torch.device("cpu"))).logits(pairs)
    with torch.inference_mode():
        theirs = torch.cat([model(input_ids=torch.tensor([pair])).logits[:, 0] for pair in pairs])
    return float((packed - theirs).abs().max())


def _measure(
    model: T5ForSequenceClassification, pairs: Pairs, threads: int, seconds: float, decisions: int
) -> dict[str, Any]:
    ours = T5Engine(model, max_tokens=LONGEST, dtype=torch.bfloat16, threads=threads)
    decided = _decisions(ours, decisions, model.config.vocab_size)
    safety = ours.safety
    half = random_t5(model.config, torch.bfloat16)
    few = pairs[:: max(1, len(pairs) // _REFERENCE_PAIRS)]
    scores: dict[str, list[float]] = {}

    def contestant(name: str, run: Callable[[Pairs], list[float]], of: Pairs = pairs) -> Contestant:
        def remember() -> None:
            scores[name] = run(of)

        flops = sum(useful_flops(model.config, len(pair)) for pair in of)
        return Contestant(name, remember, len(of), flops)

    def score(pairs: Pairs, safety: DecisionSafety) -> list[float]:
        ours.safety = safety
        return ours.score_ids(pairs)

    contestants = [
        contestant(PAPERS, partial(papers_loop, model), few[:2]),
        contestant(REFERENCE, partial(one_by_one, model), few),
        contestant(PEERS[0], partial(token_budget_sorted, half)),
        contestant(PEERS[1], partial(tei_like, half)),
        contestant(OURS_FP32, ours.exact_scores),
        contestant(OURS, partial(score, safety=DecisionSafety())),
        contestant(OURS_SAFE, partial(score, safety=safety)),
        _products(model.config, threads),
    ]
    for one in contestants:
        one.run()
    for _ in _rounds(seconds):
        for one in contestants:
            one.time()
    places = range(0, len(pairs), max(1, len(pairs) // _REFERENCE_PAIRS))
    return {
        "pairs": len(pairs),
        "tokens": sum(map(len, pairs)),
        "threads": threads,
        "rounds": len(contestants[0].clock),
        "contestants": [
            {
                "name": one.name,
                "pairs_per_s": one.rate(),
                "pairs_per_core_s": one.rate(of_cpu=True),
                "gflop_per_s": one.gflops(),
                "gflop_per_core_s": one.gflops(of_cpu=True),
            }
            for one in contestants
        ],
        "errors": {
            name: max(
                abs(got[i] - expected) for i, expected in zip(places, scores[REFERENCE], strict=True)
            )
            for name, got in scores.items()
            if len(got) == len(pairs)
        },
        "decisions": decided,
    }


def _decisions(ours: T5Engine, count: int, vocabulary: int) -> dict[str, float]:
    """Whether safe decisions are float32's, at thresholds amid the scores, on pairs of their own.

    Leaves those thresholds, and the epsilon measured on other pairs, in the engine.
    """
    questions = -(-count // len(w2_lengths(1)))
    known = pairs_of(w2_lengths(questions, seed=1)[:count], vocabulary, seed=1)
    judged = pairs_of(w2_lengths(questions, seed=2)[:count], vocabulary, seed=2)
    ours.safety = DecisionSafety()
    rounded, exact = ours.score_ids(judged), ours.exact_scores(judged)
    thresholds = tuple(torch.tensor(exact).quantile(torch.tensor([0.3, 0.7])).tolist())
    ours.safety = DecisionSafety(thresholds, 2 * ours.rounding_error(known[:_CALIBRATION_PAIRS]))
    before = ours.rescored
    safe = ours.score_ids(judged)
    return {
        "pairs": count,
        "epsilon": ours.safety.epsilon,
        "rescored_share": (ours.rescored - before) / count,
        "agreement": _agreement(safe, exact, thresholds),
        "agreement_without_safety": _agreement(rounded, exact, thresholds),
        "largest_error": max(abs(a - b) for a, b in zip(rounded, exact, strict=True)),
    }


def _products(config: T5Config, threads: int) -> Contestant:
    """Every product of an encoder and a decoder layer, on every core: the rate none can exceed."""
    d, inner, f = config.d_model, config.num_heads * config.d_kv, config.d_ff
    shapes = [(d, 3 * inner), (inner, d), (d, f), (f, d)]  # of the encoder
    shapes += [*shapes, (d, inner), (d, 2 * inner), (inner, d)]
    rows, repeats = CPU_TOKENS_PER_PIECE, max(1, config.num_layers // 3)
    products = [Linear(torch.randn(out, into).bfloat16()) for into, out in shapes]
    workers = WorkerThreads(threads)

    def multiply(inputs: Sequence[Tensor]) -> None:
        with torch.inference_mode():
            for _ in range(repeats):
                for product, x in zip(products, inputs, strict=True):
                    product(x)

    inputs = [[torch.randn(rows, into).bfloat16() for into, _ in shapes] for _ in range(threads)]
    flops = threads * repeats * sum(2 * rows * into * out for into, out in shapes)
    return Contestant(GEMM, lambda: workers.map(multiply, inputs), 0, flops)


def _rounds(seconds: float) -> Iterator[int]:
    """Numbers of the rounds, at least three, until the time is up."""
    started = time.monotonic()
    count = 0
    while count < _MIN_ROUNDS or time.monotonic() - started < seconds:
        yield count
        count += 1


def _agreement(ours: Sequence[float], exact: Sequence[float], thresholds: Sequence[float]) -> float:
    """Share of scores on the same side of every threshold."""
    same = [
        all((a >= limit) is (b >= limit) for limit in thresholds)
        for a, b in zip(ours, exact, strict=True)
    ]
    return sum(same) / len(same)


def _is_right(result: dict[str, Any]) -> bool:
    errors = result["errors"]
    return bool(
        result["fp64_error"] <= _WORST_FP64
        and errors[OURS_FP32] <= _WORST_FP32
        and result["decisions"]["agreement"] == 1.0
    )


def _markdown(result: dict[str, Any]) -> str:
    by_name = {row["name"]: row for row in result["contestants"]}
    decided = result["decisions"]
    papers, ours, roof = by_name[PAPERS], by_name[OURS], by_name[GEMM]

    def ratio(row: dict[str, Any], other: dict[str, Any], key: str) -> str:
        return f"{row[key] / other[key]:.2f}"

    def line(row: dict[str, Any]) -> list[str]:
        flops = [f"{row['gflop_per_s']:.0f}", f"{row['gflop_per_core_s']:.0f}"]
        if row is roof:
            return [row["name"], "-", "-", "-", "-", *flops, "-"]
        error = result["errors"].get(row["name"])
        return [
            row["name"],
            f"{row['pairs_per_s']:.2f}",
            f"{row['pairs_per_core_s']:.2f}",
            ratio(row, papers, "pairs_per_s"),
            ratio(row, papers, "pairs_per_core_s"),
            *flops,
            "-" if error is None else f"{error:.1e}",
        ]

    findings = [
        f"T5-{result['shape']}, {result['pairs']} pairs, {result['tokens']} tokens, "
        f"{result['threads']} threads, medians of {result['rounds']} interleaved rounds.",
        *(
            f"packed bf16 against {name}: {ratio(ours, by_name[name], 'pairs_per_s')} on the clock, "
            f"{ratio(ours, by_name[name], 'pairs_per_core_s')} by CPU time"
            for name in PEERS
        ),
        f"share of the measured product rate: {ratio(ours, roof, 'gflop_per_s')} on the clock, "
        f"{ratio(ours, roof, 'gflop_per_core_s')} by CPU time",
        f"{decided['pairs']} decisions: {decided['agreement']:.2%} as in float32, "
        f"{decided['agreement_without_safety']:.2%} without safety; epsilon {decided['epsilon']:.1e}, "
        f"largest error {decided['largest_error']:.1e}, {decided['rescored_share']:.1%} computed again",
        f"largest float64 difference to Hugging Face, lengths 1 to {LONGEST}: "
        f"{result['fp64_error']:.1e}",
        f"scores {'right' if _is_right(result) else 'WRONG'}",
    ]
    header = ["scorer", "pairs/s", "pairs/core-s", "x papers", "x papers (CPU)", "GFLOP/s",
              "GFLOP/core-s", "largest error"]  # fmt: skip
    return f"## T5 engine\n\n{table(header, map(line, result['contestants']))}\n\n" + "\n".join(
        f"- {finding}" for finding in findings
    )
