"""T5's attention on a GPU: packed pairs by FlexAttention, padded ones in a CUDA graph's fixed shape."""

import math
from collections.abc import Sequence
from functools import cache
from typing import Any

import torch
from torch import Tensor
from torch.nn.attention.flex_attention import BlockMask, create_block_mask, flex_attention
from torch.nn.functional import scaled_dot_product_attention

from deployments.backends.t5.t5_attention import PositionBias, Span


class DocumentAttention:
    """All pairs in one fused kernel, each a document that looks at nothing but itself.

    A distance between rows of one pair is a distance between its positions, so the bias needs no more
    than row numbers.
    """

    def __init__(self, spans: Sequence[Span], last_rows: Tensor, rows: int) -> None:
        self._device = last_rows.device
        self._last_rows = last_rows
        pair_of = [-1] * rows
        for pair, span in enumerate(spans):
            pair_of[span.start : span.stop] = [pair] * span.length
        self._pair_of = torch.tensor(pair_of, device=self._device)
        self._whole = self._block_mask(is_causal=False)
        self._causal = self._block_mask(is_causal=True)
        # On a CPU, where tests compare it, FlexAttention runs as it is written.
        self._flex: Any = _fused_flex_attention() if self._device.type == "cuda" else flex_attention

    def attend(self, q: Tensor, k: Tensor, v: Tensor, bias: PositionBias) -> Tensor:
        """Attended values [rows, heads, width]; what rows of no pair hold is of no use."""
        by_distance, far = bias.by_distance, bias.longest - 1
        last_head = len(by_distance) - 1

        def with_bias(score: Tensor, _: Tensor, head: Tensor, query: Tensor, key: Tensor) -> Tensor:
            distance = (key - query).clamp(-far, far)
            return score + by_distance[head.clamp(max=last_head), distance + far]

        q, k, v = (tensor.transpose(0, 1)[None] for tensor in (q, k, v))
        mask = self._causal if bias.is_causal else self._whole
        attended: Tensor = self._flex(q, k, v, score_mod=with_bias, block_mask=mask, scale=1.0)
        return attended[0].transpose(0, 1).contiguous()

    def attend_last(self, q: Tensor, x: Tensor, bias: PositionBias) -> Tensor:
        """Attended rows [pairs, heads, model]: few queries, so they look at every row and mask most."""
        far = bias.longest - 1
        rows = torch.arange(len(x), device=self._device)
        distance = (rows - self._last_rows[:, None]).clamp(-far, far)
        wide = bias.by_distance.dtype
        scores = q.to(wide) @ x.to(wide).t() + bias.by_distance[:, distance + far].transpose(0, 1)
        is_other = self._pair_of != self._pair_of[self._last_rows, None]
        weights = scores.masked_fill(is_other[:, None], -math.inf).softmax(-1)
        return weights.to(x.dtype) @ x

    def _block_mask(self, *, is_causal: bool) -> BlockMask:
        pair_of = self._pair_of

        def sees(_batch: Tensor, _head: Tensor, query: Tensor, key: Tensor) -> Tensor:
            same = pair_of[query] == pair_of[key]
            return same & (query >= key) if is_causal else same

        rows = len(pair_of)
        return create_block_mask(sees, None, None, rows, rows, device=str(self._device))


class PaddedAttention:
    """Pairs padded to one length: shapes that depend on nothing, as a CUDA graph must have them."""

    def __init__(self, lengths: Tensor, longest: int) -> None:
        """`lengths` [pairs] is read at every call, so a graph can be replayed with others in it."""
        self._lengths = lengths
        self._longest = longest
        self._positions = torch.arange(longest, device=lengths.device)

    def attend(self, q: Tensor, k: Tensor, v: Tensor, bias: PositionBias) -> Tensor:
        """Attended values [pairs · longest, heads, width]; what padding holds is of no use."""
        q, k, v = (x.view(-1, self._longest, *x.shape[1:]).transpose(1, 2) for x in (q, k, v))
        own = bias.block(self._longest, slice(0, self._longest), self._longest)
        mask = own + self._hidden()[:, None, None]
        attended = scaled_dot_product_attention(q, k, v, attn_mask=mask.to(q.dtype), scale=1.0)
        return attended.transpose(1, 2).flatten(0, 1)

    def attend_last(self, q: Tensor, x: Tensor, bias: PositionBias) -> Tensor:
        """Attended rows [pairs, heads, model]."""
        far = bias.longest - 1
        distance = self._positions - (self._lengths[:, None] - 1)
        mask = bias.by_distance[:, distance + far].transpose(0, 1) + self._hidden()[:, None]
        rows = x.view(-1, 1, self._longest, x.shape[1])
        attended = scaled_dot_product_attention(
            q[:, None], rows, rows, attn_mask=mask[:, None].to(q.dtype), scale=1.0
        )
        return attended[:, 0]

    def _hidden(self) -> Tensor:
        """[pairs, longest]: zero for a pair's own positions, minus infinity for its padding."""
        is_padding = self._positions >= self._lengths[:, None]
        return torch.zeros(is_padding.shape, device=is_padding.device).masked_fill(is_padding, -math.inf)


@cache
def _fused_flex_attention() -> Any:
    return torch.compile(flex_attention, dynamic=True)
