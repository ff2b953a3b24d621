"""T5's attention over packed pairs: its position bias, and the fastest exact form on a CPU."""

import math
from collections.abc import Sequence
from typing import NamedTuple, Protocol, Self

import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention
from transformers.models.t5.modeling_t5 import T5Attention

KEY_BLOCK = 16
"""A CPU's products are compiled for their shape; rows in multiples of this leave few shapes."""

_QUERY_ROWS = 256
"""Most rows whose weights are formed at a time: they stay in the cache, and a causal block's end
bounds its keys."""


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
    table's last n rows. It is larger than the longest pair: the columns after it hide keys that belong
    to another pair, the rows after it are those of queries that do.
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
        side = self.longest + KEY_BLOCK
        self._table = by_distance.new_zeros(heads, side, side)
        self._table[:, : self.longest, self.longest :] = -math.inf
        self._table[:, : self.longest, : self.longest] = by_distance[
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

    def block(self, length: int, rows: slice, keys: int) -> Tensor:
        """[heads, rows, keys]: the bias of so many keys for some rows of a pair."""
        corner = self.longest - length
        return self._table[:, corner + rows.start : corner + rows.stop, corner : corner + keys]


class Attention(Protocol):
    """Attention of every pair within itself, on packed rows."""

    def attend(self, q: Tensor, k: Tensor, v: Tensor, bias: PositionBias) -> Tensor:
        """Attended values [rows, heads, width] of queries, keys and values of that shape."""
        ...

    def attend_last(self, q: Tensor, x: Tensor, bias: PositionBias) -> Tensor:
        """[pairs, heads, model]: queries of that shape at each pair's last row, over x [rows, model]."""
        ...


class PairwiseAttention:
    """Pair by pair, the heads of one in a batched product.

    A fused kernel multiplies in tiles of 32 queries, which costs a CPU more than the memory it saves.
    A pair runs on into the rows after it, up to a whole block: the bias hides those keys, and what
    those queries attend to is not read.
    """

    def __init__(self, spans: Sequence[Span]) -> None:
        self._spans = spans
        self._orders: dict[int, _HeadOrder] = {}

    def attend(self, q: Tensor, k: Tensor, v: Tensor, bias: PositionBias) -> Tensor:
        """Attended values; rows that belong to no pair hold nothing of use."""
        rows, heads, width = q.shape
        order = self._orders.get(heads)
        if order is None:
            order = self._orders[heads] = _HeadOrder(self._spans, rows, heads)
        q, k, v = (order.by_head(x) for x in (q, k, v))
        attended = torch.empty_like(q)
        for span, place in zip(self._spans, order.places, strict=True):
            pair_q, pair_k, pair_v, out = (x[place].view(heads, -1, width) for x in (q, k, v, attended))
            _attend_pair(pair_q, pair_k, pair_v, out, bias, span.length)
        return order.by_row(attended)

    def attend_last(self, q: Tensor, x: Tensor, bias: PositionBias) -> Tensor:
        """Attended rows: the heads are queries to one shared key and value, the row itself."""
        attended = torch.zeros_like(q)
        for pair, span in enumerate(self._spans):
            rows = x[span.window][None, None]
            last = slice(span.length - 1, span.length)
            mask = bias.block(span.length, last, blocks(span.length)).transpose(0, 1)
            attended[pair] = scaled_dot_product_attention(
                q[pair][None, None], rows, rows, attn_mask=mask[None], scale=1.0
            )
        return attended


class _HeadOrder:
    """Rows in another order: pair by pair, and in a pair head by head, as batched products read them."""

    def __init__(self, spans: Sequence[Span], rows: int, heads: int) -> None:
        """`places` holds where each pair's heads then lie."""
        self.places: list[slice] = []
        self._of_row = torch.zeros(rows, heads, dtype=torch.long)
        row_of, head_of = [], []
        first = 0
        for span in spans:
            window = span.window
            size = window.stop - window.start
            place = torch.arange(first, first + heads * size).view(heads, size)
            # In order, so that a pair takes back the rows that the one before it ran on into.
            self._of_row[window] = place.t()
            row_of.append(torch.arange(window.start, window.stop).repeat(heads))
            head_of.append(torch.arange(heads).repeat_interleave(size))
            self.places.append(slice(first, first + heads * size))
            first += heads * size
        self._row_of, self._head_of = torch.cat(row_of), torch.cat(head_of)

    def by_head(self, x: Tensor) -> Tensor:
        """[places, width] of x [rows, heads, width], the heads of a row side by side in memory."""
        rows, heads, width = x.shape
        step = x.stride(0) // width
        flat = x.as_strided(((rows - 1) * step + heads, width), (width, 1))
        return flat.index_select(0, self._row_of * step + self._head_of)

    def by_row(self, x: Tensor) -> Tensor:
        """[rows, heads, width] of x [places, width]."""
        return x.index_select(0, self._of_row.view(-1)).view(*self._of_row.shape, -1)


def _attend_pair(
    q: Tensor, k: Tensor, v: Tensor, attended: Tensor, bias: PositionBias, length: int
) -> None:
    """Fill `attended`, [heads, rows, width] as the others; T5 does not scale its scores."""
    stop = q.shape[1]
    pieces = -(-stop // _QUERY_ROWS)
    step = blocks(-(-stop // pieces))
    for first in range(0, stop, step):
        rows = slice(first, min(first + step, stop))
        keys = rows.stop if bias.is_causal else stop
        scores = torch.bmm(q[:, rows], k[:, :keys].transpose(1, 2))
        weights = (bias.block(length, rows, keys) + scores).softmax(-1)
        attended[:, rows] = torch.bmm(weights.to(v.dtype), v[:, :keys])
