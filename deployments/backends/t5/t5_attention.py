"""T5's attention over packed pairs: its position bias, and the fastest exact form on a CPU."""

import math
from collections.abc import Sequence
from typing import NamedTuple, Protocol, Self

import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention
from transformers.models.t5.modeling_t5 import T5Attention

KEY_BLOCK = 16
"""A CPU's attention kernel is half as fast again when the number of keys is a multiple of this."""


class Span(NamedTuple):
    """The rows of one pair among the packed rows."""

    start: int
    length: int

    @property
    def stop(self) -> int:
        """The row after the pair's last."""
        return self.start + self.length

    @property
    def window(self) -> slice:
        """The pair's rows and those after it that fill the last block of keys."""
        return slice(self.start, self.start + blocks(self.length))


def blocks(rows: int) -> int:
    """The number of rows rounded up to whole blocks of keys."""
    return -(-rows // KEY_BLOCK) * KEY_BLOCK


class PositionBias:
    """What T5 adds to an attention score: a number by head and by distance, nothing else.

    Only distances count, so one table serves every length: the bias of a pair of n tokens is the
    table's last n rows. Its extra columns hold minus infinity, for keys that belong to another pair.
    """

    def __init__(self, by_distance: Tensor, *, is_causal: bool) -> None:
        """`by_distance` is [heads, 2·longest-1], from key far before the query to key far after it."""
        heads, distances = by_distance.shape
        self.longest = (distances + 1) // 2
        self.is_causal = is_causal
        if is_causal:
            by_distance = by_distance.clone()
            by_distance[:, self.longest :] = -math.inf
        self.by_distance = by_distance
        positions = torch.arange(self.longest, device=by_distance.device)
        self._table = by_distance.new_full((heads, self.longest, self.longest + KEY_BLOCK), -math.inf)
        self._table[:, :, : self.longest] = by_distance[
            :, positions[None, :] - positions[:, None] + self.longest - 1
        ]

    @classmethod
    def of(cls, attention: T5Attention, longest: int, dtype: torch.dtype, device: torch.device) -> Self:
        """The bias that a stack's first layer holds for all its layers."""
        distances = torch.arange(1 - longest, longest)
        buckets = T5Attention._relative_position_bucket(  # type: ignore[no-untyped-call]  # theirs
            distances,
            bidirectional=not attention.is_decoder,
            num_buckets=attention.relative_attention_num_buckets,
            max_distance=attention.relative_attention_max_distance,
        )
        weight = attention.relative_attention_bias.weight.detach().cpu()
        by_distance = weight[buckets].t().to(device, dtype)
        return cls(by_distance, is_causal=attention.is_decoder)

    @classmethod
    def none(cls, longest: int, dtype: torch.dtype, device: torch.device) -> Self:
        """The bias of cross-attention: nothing, but for keys of another pair."""
        return cls(torch.zeros(1, 2 * longest - 1, dtype=dtype, device=device), is_causal=False)

    def block(self, length: int, first: int, keys: int) -> Tensor:
        """[1, heads, length - first, keys]: a pair's bias from its row `first` on."""
        corner = self.longest - length
        return self._table[None, :, corner + first :, corner : corner + keys]


class Attention(Protocol):
    """Attention of every pair within itself, on packed rows."""

    def attend(self, q: Tensor, k: Tensor, v: Tensor, bias: PositionBias) -> Tensor:
        """Attended values [rows, heads, width] of queries, keys and values of that shape."""
        ...

    def attend_last(self, q: Tensor, x: Tensor, bias: PositionBias) -> Tensor:
        """[pairs, heads, model]: queries of that shape at each pair's last row, over x [rows, model]."""
        ...


class PairwiseAttention:
    """One fused kernel call per pair: nothing is padded or copied.

    The keys of a pair run on into the rows after it, up to a whole block; the bias hides those.
    """

    def __init__(self, spans: Sequence[Span]) -> None:
        self._spans = spans

    def attend(self, q: Tensor, k: Tensor, v: Tensor, bias: PositionBias) -> Tensor:
        """Attended values; rows that belong to no pair stay zero."""
        attended = torch.empty_like(q, memory_format=torch.contiguous_format)
        attended[self._spans[-1].stop :] = 0
        for span in self._spans:
            for first, stop in _causal_halves(span.length) if bias.is_causal else ((0, span.length),):
                keys = slice(span.start, span.start + blocks(stop))
                attended[span.start + first : span.start + stop] = _attend(
                    q[span.start + first : span.start + stop],
                    k[keys],
                    v[keys],
                    bias.block(stop, first, blocks(stop)),
                )
        return attended

    def attend_last(self, q: Tensor, x: Tensor, bias: PositionBias) -> Tensor:
        """Attended rows: the heads are queries to one shared key and value, the row itself."""
        attended = torch.zeros_like(q)
        for pair, span in enumerate(self._spans):
            rows = x[span.window, None]
            mask = bias.block(span.length, span.length - 1, blocks(span.length)).transpose(1, 2)
            attended[pair] = _attend(q[pair, :, None], rows, rows, mask)[:, 0]
        return attended


def _attend(q: Tensor, k: Tensor, v: Tensor, mask: Tensor) -> Tensor:
    """[rows, heads, width] of tensors of that order; T5 does not scale its scores."""
    q, k, v = (x.transpose(0, 1)[None] for x in (q, k, v))
    return scaled_dot_product_attention(q, k, v, attn_mask=mask, scale=1.0)[0].transpose(0, 1)


def _causal_halves(length: int) -> Sequence[tuple[int, int]]:
    """Row ranges of a causal pair; the first of two does not look at the second's keys."""
    if length < _CAUSAL_SPLIT:
        return ((0, length),)
    middle = blocks(length // 2)
    return ((0, middle), (middle, length))


_CAUSAL_SPLIT = 192
"""A causal pair shorter than this is faster in one call than in two."""
