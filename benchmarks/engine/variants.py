"""`python -m benchmarks engine-variants`: what might go further than the packed engine, in one run."""

import sys
from collections.abc import Sequence
from functools import partial
from typing import Annotated, Any
from unittest.mock import patch

import torch
import typer
from torch import Tensor
from transformers import T5ForSequenceClassification

from benchmarks.engine.contest import Contest
from benchmarks.engine.decisions import decide
from benchmarks.engine.pairs import LONGEST
from benchmarks.engine.peer_package import peer_package
from benchmarks.engine.peers import token_budget_sorted
from benchmarks.engine.shapes import Shape, in_bfloat16, random_t5
from benchmarks.engine.workload import Workload, generated_workload
from benchmarks.report import table
from deployments.backends.t5 import t5_weights
from deployments.backends.t5.t5_engine import DecisionSafety, T5Engine

OURS, INT8 = "packed bf16", "packed int8"
TORCH, COMPILED = "Hugging Face bf16", "Hugging Face bf16, torch.compile"
OPENVINO = "Hugging Face bf16 in OpenVINO"
_OPENVINO = ("openvino==2026.4.0", "openvino-telemetry==2025.2.0")
_DECISIONS = 620


class Int8Linear:
    """A product in int8: weights scaled by output, activations by row, so that no row meets another."""

    def __init__(self, weight: Tensor, *, relu: bool = False) -> None:
        self._relu = relu
        self._is_int8 = weight.dtype is torch.bfloat16
        self._weight = weight
        if self._is_int8:
            self._scale = weight.float().abs().amax(1).clamp_min(1e-12) / 127
            self._weight = (weight.float() / self._scale[:, None]).round().to(torch.int8).t()

    def __call__(self, x: Tensor) -> Tensor:
        """[rows, out] of x [rows, in], through ReLU where asked for."""
        if not self._is_int8:
            y = torch.nn.functional.linear(x, self._weight)
        else:
            scale = x.abs().amax(1, keepdim=True).float().clamp_min(1e-12) / 127
            whole = (x / scale.to(x.dtype)).round().clamp_(-127, 127).to(torch.int8)
            products: Any = torch._int_mm(whole, self._weight)
            y = (products * scale * self._scale).to(x.dtype)
        return y.relu_() if self._relu else y


def engine_variants(
    shape: Annotated[Shape, typer.Option(help="Size of the T5.")] = Shape.SMALL,
    seconds: Annotated[float, typer.Option(help="Time for the rounds; three are made anyway.")] = 30.0,
    threads: Annotated[int, typer.Option(help="CPU threads.", min=1)] = 2,
) -> None:
    """Pairs a second and decisions of the engine in int8, of torch.compile and of OpenVINO."""
    torch.set_num_threads(threads)
    model = random_t5(shape.config)
    work = generated_workload(1, _DECISIONS)
    ours = T5Engine(model, max_tokens=LONGEST, dtype=torch.bfloat16, threads=threads)
    with patch.object(t5_weights, "Linear", Int8Linear):
        int8 = T5Engine(model, max_tokens=LONGEST, dtype=torch.bfloat16, threads=threads)
    half = in_bfloat16(model)
    contest = Contest(model.config)
    contest.enter(OURS, ours.score_ids, work.timed)
    contest.enter(INT8, int8.score_ids, work.timed)
    contest.enter(TORCH, partial(token_budget_sorted, half), work.timed)
    compiled: Any = torch.compile(half, dynamic=True)
    contest.enter(COMPILED, partial(token_budget_sorted, compiled), work.timed)
    if (in_openvino := _openvino(model)) is not None:
        contest.enter(OPENVINO, partial(token_budget_sorted, in_openvino), work.timed)
    rescored = {OURS: _rescored(ours, work), INT8: _rescored(int8, work)}
    for engine in (ours, int8):
        engine.safety = DecisionSafety()
    rounds = contest.hold(seconds)
    print(f"## Variants of the T5 engine: T5-{shape}, {threads} threads, {rounds} rounds\n")
    print(_markdown(contest, ours.exact_scores(work.timed), rescored))


def _rescored(engine: T5Engine, work: Workload) -> str:
    """The share computed again for all decisions to be float32's; says so where they are not."""
    decided = decide(engine, work.known, work.judged)
    return f"{decided.near_share:.1%}" + ("" if decided.agreement == 1.0 else " (and still wrong)")


def _openvino(model: T5ForSequenceClassification) -> Any:
    """The model behind OpenVINO's compiler, called as Hugging Face's is; None when pip cannot get it."""
    package = peer_package("openvino", *_OPENVINO)
    if package is None:
        return None
    sys.path.append(str(package.resolve()))
    import openvino as ov

    example = {
        "input_ids": torch.ones(2, 16, dtype=torch.long),
        "attention_mask": torch.ones(2, 16, dtype=torch.long),
    }
    converted = ov.convert_model(_LogitsAlone(model), example_input=example)
    compiled = ov.Core().compile_model(converted, "CPU", {"INFERENCE_PRECISION_HINT": "bf16"})

    class Compiled:
        device = torch.device("cpu")

        def __call__(self, input_ids: Tensor, attention_mask: Tensor) -> Any:
            inputs = {"input_ids": input_ids.numpy(), "attention_mask": attention_mask.numpy()}
            return _Output(torch.from_numpy(compiled(inputs)[0].copy()))

    return Compiled()


class _Output:
    def __init__(self, logits: Tensor) -> None:
        self.logits = logits


class _LogitsAlone(torch.nn.Module):
    """A model whose output can be traced: one tensor."""

    def __init__(self, model: T5ForSequenceClassification) -> None:
        super().__init__()
        self._model = model

    def forward(self, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
        """The logits."""
        logits: Tensor = self._model(input_ids=input_ids, attention_mask=attention_mask).logits
        return logits


def _markdown(contest: Contest, exact: Sequence[float], rescored: dict[str, str]) -> str:
    ours = contest.contestants[0]
    rows = [
        [
            one.name,
            f"{one.rate():.1f}",
            f"{one.rate(of_cpu=True):.1f}",
            f"{one.rate() / ours.rate():.2f}",
            f"{one.rate(of_cpu=True) / ours.rate(of_cpu=True):.2f}",
            f"{max(abs(a - b) for a, b in zip(contest.scores[one.name], exact, strict=True)):.1e}",
            rescored.get(one.name, "-"),
        ]
        for one in contest.contestants
    ]
    header = ["variant", "pairs/s", "pairs/core-s", f"x {OURS}", f"x {OURS} (CPU)", "largest error",
              "computed again"]  # fmt: skip
    return table(header, rows)
