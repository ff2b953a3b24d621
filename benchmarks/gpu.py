"""The T5 engine on a GPU: rates by length, kernels side by side, one pair's latency; minutes in all."""

import time
from collections.abc import Callable
from functools import partial
from statistics import median
from typing import TypeVar

import torch
import typer
from rich.console import Console
from torch import Tensor

from benchmarks.engine.pairs import LONGEST, pairs_of, w2_lengths
from benchmarks.engine.peers import Pairs, in_order, papers_loop
from benchmarks.engine.shapes import Shape, random_t5, useful_flops
from benchmarks.report import table
from deployments.backends.t5.packed_t5 import PackedT5
from deployments.backends.t5.t5_cuda_graphs import GraphedT5, padded_shape
from deployments.backends.t5.t5_gpu_attention import PaddedAttention
from deployments.backends.t5.t5_weights import T5Weights

_TOKENS = 16_384
_LENGTHS = (64, 128, 256, 512)
_QUESTIONS = 5
_PEER_PAIRS = 32
_REPEATS = 5
_PRODUCT_SIDE = 8192

Result = TypeVar("Result")


def gpu() -> None:
    """Measure T5-large with random weights on this machine's GPU; exit 2 when there is none."""
    if not torch.cuda.is_available():
        typer.echo("not run: torch finds no CUDA GPU on this machine", err=True)
        raise typer.Exit(2)
    device = torch.device("cuda")
    config = Shape.LARGE.config
    model, half = random_t5(config), random_t5(config, torch.bfloat16, "cuda")
    network = PackedT5(T5Weights.of(model, LONGEST, torch.bfloat16, device))
    workloads = {f"{n} tokens": [n] * (_TOKENS // n) for n in _LENGTHS}
    workloads["W2"] = w2_lengths(_QUESTIONS)
    roof = _product_rate(device)
    rows = []
    for name, lengths in workloads.items():
        pairs = pairs_of(lengths, config.vocab_size)
        packed, flex = _measured(partial(network.logits, pairs))
        padded, dense = _measured(partial(_padded, network, pairs))
        theirs, _ = _measured(partial(in_order, half, pairs, _PEER_PAIRS))
        share = sum(useful_flops(config, n) for n in lengths) / packed / roof
        rates = (f"{len(pairs) / seconds:.0f}" for seconds in (packed, padded, theirs))
        rows.append([name, *rates, f"{share:.1%}", f"{float((flex - dense).abs().max()):.1e}"])
    header = ["pairs", "packed", "padded SDPA", "Hugging Face bf16, 32 a batch",
              "share of the product rate", "largest difference"]  # fmt: skip
    pair = pairs_of([128], config.vocab_size)
    launched, _ = _measured(partial(network.logits, pair))
    graphed = GraphedT5(network)
    replayed, _ = _measured(partial(graphed.logits, pair))
    papers, _ = _measured(partial(papers_loop, random_t5(config, device="cuda"), pair))
    findings = [
        f"bf16 products: {roof / 1e12:.0f} TFLOP/s on {torch.cuda.get_device_name(device)}",
        f"one pair of 128 tokens: {launched * 1e3:.2f} ms, by CUDA graph {replayed * 1e3:.2f} ms",
        f"the papers' loop, one by one, padded to {LONGEST}, fp32: {1 / papers:.1f} pairs/s",
    ]
    text = f"## T5-large on a GPU, pairs/s\n\n{table(header, rows)}\n\n" + "\n".join(
        f"- {line}" for line in findings
    )
    Console(soft_wrap=True).print(text, markup=False, highlight=False)


@torch.inference_mode()
def _padded(network: PackedT5, pairs: Pairs) -> Tensor:
    """All pairs in one batch, padded as for a CUDA graph."""
    _, longest = padded_shape(pairs)
    batch, lengths = network.padded(pairs, len(pairs), longest)
    return network.forward(batch, PaddedAttention(lengths, longest))


def _product_rate(device: torch.device) -> float:
    """bf16 operations a second in a large product."""
    a, b = (
        torch.randn(_PRODUCT_SIDE, _PRODUCT_SIDE, dtype=torch.bfloat16, device=device) for _ in range(2)
    )
    seconds, _ = _measured(partial(torch.matmul, a, b))
    return float(2 * _PRODUCT_SIDE**3 / seconds)


def _measured(run: Callable[[], Result]) -> tuple[float, Result]:
    """Median seconds of a run, after one that compiles and captures; and what it gave."""
    result = run()
    seconds = []
    for _ in range(_REPEATS):
        torch.cuda.synchronize()
        started = time.perf_counter()
        result = run()
        torch.cuda.synchronize()
        seconds.append(time.perf_counter() - started)
    return median(seconds), result
