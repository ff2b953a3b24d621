"""CUDA graphs for low load: a few pairs cost the launch of one graph, not of a thousand kernels."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from deployments.backends.t5.packed_t5 import PackedBatch, PackedT5
from deployments.backends.t5.t5_gpu_attention import PaddedAttention

MAX_PAIRS = 8
_LENGTH_STEP = 64
_WARM_UPS = 3


@dataclass(frozen=True, slots=True)
class _Graph:
    batch: PackedBatch
    lengths: Tensor
    logits: Tensor
    graph: torch.cuda.CUDAGraph


class GraphedT5:
    """A packed T5 whose small batches replay graphs, one for every padded shape met so far."""

    def __init__(self, network: PackedT5) -> None:
        self._network = network
        self._graphs: dict[tuple[int, int], _Graph] = {}

    @torch.inference_mode()
    def logits(self, inputs: Sequence[Sequence[int]]) -> Tensor:
        """[pairs] logits, as the packed T5 gives them."""
        if len(inputs) > MAX_PAIRS:
            return self._network.logits(inputs)
        pairs, longest = padded_shape(inputs)
        graph = self._graphs.get((pairs, longest)) or self._capture(inputs, pairs, longest)
        batch, lengths = self._network.padded(inputs, pairs, longest)
        for fixed, current in zip((*graph.batch[:3], graph.lengths), (*batch[:3], lengths), strict=True):
            fixed.copy_(current)
        graph.graph.replay()
        return graph.logits[: len(inputs)].clone()

    def _capture(self, inputs: Sequence[Sequence[int]], pairs: int, longest: int) -> _Graph:
        batch, lengths = self._network.padded(inputs, pairs, longest)
        attention = PaddedAttention(lengths, longest)
        stream = torch.cuda.Stream()  # type: ignore[no-untyped-call]  # torch's
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            for _ in range(_WARM_UPS):
                self._network.forward(batch, attention)
        torch.cuda.current_stream().wait_stream(stream)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            logits = self._network.forward(batch, attention)
        captured = self._graphs[pairs, longest] = _Graph(batch, lengths, logits, graph)
        return captured


def padded_shape(inputs: Sequence[Sequence[int]]) -> tuple[int, int]:
    """Pairs and length of the smallest shape that holds the inputs.

    >>> padded_shape([[1] * 70, [1] * 20, [1]])
    (4, 128)
    """
    longest = max(map(len, inputs))
    return 1 << (len(inputs) - 1).bit_length(), -(-longest // _LENGTH_STEP) * _LENGTH_STEP
