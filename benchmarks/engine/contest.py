"""Contestants and their rounds: each runs once a round, so that all meet the same neighbours."""

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from statistics import median

import torch
from torch import Tensor
from transformers import T5Config

from benchmarks.engine.peers import Pairs
from benchmarks.engine.shapes import useful_flops
from deployments.backends.t5.t5_engine import CPU_TOKENS_PER_PIECE
from deployments.backends.t5.t5_layers import Linear
from deployments.backends.t5.worker_threads import WorkerThreads

GEMM = "products of the model's shapes"

_MIN_ROUNDS = 3


@dataclass
class Contestant:
    """One way to score pairs, with the seconds of every round: on the clock, and of all cores."""

    name: str
    run: Callable[[], object]
    pairs: int
    flops: int
    cpu_time: Callable[[], float] = time.process_time
    clock_s: list[float] = field(default_factory=list)
    cpu_s: list[float] = field(default_factory=list)

    def time(self) -> None:
        """Run once and note the seconds."""
        clock, cpu = time.perf_counter(), self.cpu_time()
        self.run()
        self.clock_s.append(time.perf_counter() - clock)
        self.cpu_s.append(self.cpu_time() - cpu)

    def rate(self, *, of_cpu: bool = False) -> float:
        """Median pairs a second; of CPU time, pairs a core-second."""
        return self.pairs / median(self.cpu_s if of_cpu else self.clock_s)

    def gflops(self, *, of_cpu: bool = False) -> float:
        """Median useful GFLOP a second."""
        return self.flops / median(self.cpu_s if of_cpu else self.clock_s) / 1e9


@dataclass
class Contest:
    """Contestants that score pairs of one model, and the scores of each."""

    config: T5Config
    contestants: list[Contestant] = field(default_factory=list)
    scores: dict[str, list[float]] = field(default_factory=dict)

    def enter(
        self,
        name: str,
        run: Callable[[Pairs], list[float]],
        pairs: Pairs,
        cpu_time: Callable[[], float] = time.process_time,
    ) -> None:
        """Let `run` score these pairs in every round."""

        def remember() -> None:
            self.scores[name] = run(pairs)

        flops = sum(useful_flops(self.config, len(pair)) for pair in pairs)
        self.contestants.append(Contestant(name, remember, len(pairs), flops, cpu_time))

    def hold(self, seconds: float) -> int:
        """Rounds until the time is up, at least three, after one that warms up; how many they were."""
        for one in self.contestants:
            one.run()
        for _ in _rounds(seconds):
            for one in self.contestants:
                one.time()
        return len(self.contestants[0].clock_s)


def products(config: T5Config, dtype: torch.dtype, threads: int) -> Contestant:
    """Every product of an encoder and a decoder layer, on every core: the rate none can exceed."""
    d, inner, f = config.d_model, config.num_heads * config.d_kv, config.d_ff
    shapes = [(d, 3 * inner), (inner, d), (d, f), (f, d)]  # of the encoder
    shapes += [*shapes, (d, inner), (d, 2 * inner), (inner, d)]
    rows, repeats = CPU_TOKENS_PER_PIECE, max(1, config.num_layers // 3)
    linears = [Linear(torch.randn(out, into, dtype=dtype)) for into, out in shapes]
    workers = WorkerThreads(threads)

    def multiply(inputs: Sequence[Tensor]) -> None:
        with torch.inference_mode():
            for _ in range(repeats):
                for linear, x in zip(linears, inputs, strict=True):
                    linear(x)

    inputs = [[torch.randn(rows, into, dtype=dtype) for into, _ in shapes] for _ in range(threads)]
    flops = threads * repeats * sum(2 * rows * into * out for into, out in shapes)
    return Contestant(GEMM, lambda: workers.map(multiply, inputs), 0, flops)


def _rounds(seconds: float) -> Iterator[int]:
    started = time.monotonic()
    count = 0
    while count < _MIN_ROUNDS or time.monotonic() - started < seconds:
        yield count
        count += 1
