"""The products that a packed T5 is made of, in the form that their device does fastest."""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional

Activation = Callable[[Tensor], Tensor]

_PACKED_ROWS = 512
"""The number of rows that packed weights are laid out for; other numbers work as well."""


class Linear:
    """A product with a weight [out, in], without a bias, in the form that its device does fastest."""

    def __init__(self, weight: Tensor, *, relu: bool = False) -> None:
        self._relu = relu
        self._packed = _onednn_packs(weight)
        self._weight = (
            torch.ops.mkldnn._reorder_linear_weight(weight, _PACKED_ROWS) if self._packed else weight
        )

    def __call__(self, x: Tensor) -> Tensor:
        """[rows, out] of x [rows, in], through ReLU where asked for."""
        y: Tensor
        if self._packed:
            after = "relu" if self._relu else "none"
            y = torch.ops.mkldnn._linear_pointwise(x, self._weight, None, after, [], "")
            return y
        y = functional.linear(x, self._weight)
        return y.relu_() if self._relu else y


def _onednn_packs(weight: Tensor) -> bool:
    """Whether oneDNN can lay the weight out once, instead of anew in every product.

    These are the operators that `torch.compile` emits for a frozen bfloat16 model.
    """
    return (
        weight.dtype is torch.bfloat16
        and weight.device.type == "cpu"
        and torch.ops.mkldnn._is_mkldnn_bf16_supported()
    )


@dataclass(frozen=True, slots=True)
class FeedForward:
    """T5's feed-forward layer; a gated one has its gate in the first half of `wide`."""

    wide: Linear
    narrow: Linear
    activation: Activation
    is_gated: bool

    def __call__(self, x: Tensor) -> Tensor:
        """[rows, model] of normalised x [rows, model]."""
        if not self.is_gated:
            return self.narrow(self.wide(x))
        gate, value = self.wide(x).chunk(2, dim=-1)
        return self.narrow(self.activation(gate) * value)


@dataclass(frozen=True, slots=True)
class EncoderLayer:
    """Self-attention, its queries, keys and values in one product, and feed-forward."""

    qkv: Linear
    out: Linear
    feed_forward: FeedForward


@dataclass(frozen=True, slots=True)
class DecoderLayer:
    """An encoder's layer, with cross-attention to what the encoder made.

    Keys and values of all layers in one product are slower on a CPU: they leave the cache before use.
    """

    qkv: Linear
    out: Linear
    cross_q: Linear
    cross_kv: Linear
    cross_out: Linear
    feed_forward: FeedForward


@dataclass(frozen=True, slots=True)
class LastQuery:
    """Attention of one query per pair, whose keys and values are never formed.

    A score is (K x)·q = x·(Kᵀ q), and the values' sum is V (Σ p x): two small products for the query
    take the place of two large ones for all rows x.
    """

    q: Linear
    k: Tensor
    v: Tensor
    out: Linear

    def query(self, x: Tensor) -> Tensor:
        """[pairs, heads, model]: Kᵀ q by head, for normalised x [pairs, model]."""
        heads, width, _ = self.k.shape
        q = self.q(x).view(-1, heads, width).transpose(0, 1)
        return (q @ self.k).transpose(0, 1)

    def output(self, attended: Tensor) -> Tensor:
        """[pairs, model] of attended rows [pairs, heads, model]."""
        values = attended.transpose(0, 1) @ self.v.transpose(1, 2)
        return self.out(values.transpose(0, 1).flatten(1))


@dataclass(frozen=True, slots=True)
class TopLayer:
    """The decoder's top layer, for the end mark alone."""

    attention: LastQuery
    cross: LastQuery
    feed_forward: FeedForward


@dataclass(frozen=True, slots=True)
class Head:
    """The classification head with one output."""

    dense: Tensor
    dense_bias: Tensor
    out: Tensor
    out_bias: Tensor

    def __call__(self, x: Tensor) -> Tensor:
        """[pairs] logits of normalised x [pairs, model]."""
        hidden = torch.tanh(functional.linear(x, self.dense, self.dense_bias))
        return functional.linear(hidden, self.out, self.out_bias)[:, 0]
