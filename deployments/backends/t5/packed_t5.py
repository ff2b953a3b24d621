"""The packed T5: the one logit of `T5ForSequenceClassification`, and nothing that it does not need.

Pairs stand one after the other in one sequence of rows, without padding. What Hugging Face computes
and the logit does not depend on is left out: the decoder's top layer runs for the end mark alone, whose
state is all that the head reads. The mathematics is the checkpoint's own; only the order in which
numbers are summed differs.
"""

from collections.abc import Sequence
from itertools import accumulate
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional

from deployments.backends.t5.t5_attention import Attention, PairwiseAttention, PositionBias, Span, blocks
from deployments.backends.t5.t5_gpu_attention import DocumentAttention
from deployments.backends.t5.t5_layers import DecoderLayer, EncoderLayer
from deployments.backends.t5.t5_weights import T5Weights

_CPU_ROWS, _GPU_ROWS = 32, 128
"""Rows come in multiples of this: their number is what a CPU's products are compiled for."""


class PackedBatch(NamedTuple):
    """Token ids of pairs one after the other, and the rows of their end marks, on the device."""

    ids: Tensor
    decoder_ids: Tensor
    last_rows: Tensor
    spans: list[Span]


class PackedT5:
    """A T5 sequence classifier with one output; holds nothing between calls, so threads may share it."""

    def __init__(self, weights: T5Weights) -> None:
        self._weights = weights

    @torch.inference_mode()
    def logits(self, inputs: Sequence[Sequence[int]]) -> Tensor:
        """[pairs] logits, in float32 or wider, of token ids that end in the end mark."""
        batch = self.packed(inputs)
        attention: Attention = (
            PairwiseAttention(batch.spans)
            if self._weights.device.type == "cpu"
            else DocumentAttention(batch.spans, batch.last_rows, len(batch.ids))
        )
        return self.forward(batch, attention)[: len(inputs)]

    def packed(self, inputs: Sequence[Sequence[int]]) -> PackedBatch:
        """The inputs without padding between them, filled up at the end with rows of no pair."""
        starts = list(accumulate(map(len, inputs), initial=0))
        spans = [Span(start, len(ids)) for start, ids in zip(starts, inputs, strict=False)]
        step = _CPU_ROWS if self._weights.device.type == "cpu" else _GPU_ROWS
        rows = -(-max(span.window.stop for span in spans) // step) * step
        return self._batch(inputs, spans, rows, blocks(len(inputs)))

    def padded(
        self, inputs: Sequence[Sequence[int]], pairs: int, longest: int
    ) -> tuple[PackedBatch, Tensor]:
        """The inputs in so many spans of one length, and the length of each; unused spans count one."""
        spans = [Span(pair * longest, len(ids)) for pair, ids in enumerate(inputs)]
        spans += [Span(pair * longest, 1) for pair in range(len(inputs), pairs)]
        lengths = torch.tensor([span.length for span in spans], device=self._weights.device)
        return self._batch(inputs, spans, pairs * longest, pairs), lengths

    def forward(self, batch: PackedBatch, attention: Attention) -> Tensor:
        """[pairs] logits of a batch laid out in the way its attention expects."""
        encoded = self._encode(batch.ids, attention)
        last = self._decode(batch, encoded, attention)
        return self._weights.head(self._norm(last).to(self._weights.wide))

    def _batch(
        self, inputs: Sequence[Sequence[int]], spans: list[Span], rows: int, pairs: int
    ) -> PackedBatch:
        """Ids, and the same shifted right behind the decoder's start id; `pairs` end marks' rows."""
        ids, decoder_ids = [0] * rows, [0] * rows
        for pair, span in zip(inputs, spans, strict=False):
            ids[span.start : span.stop] = pair
            decoder_ids[span.start : span.stop] = [self._weights.start_id, *pair[:-1]]
        last_rows = [span.stop - 1 for span in spans] + [0] * (pairs - len(spans))
        device = self._weights.device
        return PackedBatch(
            torch.tensor(ids, device=device),
            torch.tensor(decoder_ids, device=device),
            torch.tensor(last_rows, device=device),
            spans,
        )

    def _encode(self, ids: Tensor, attention: Attention) -> Tensor:
        """[rows, model]: the encoder's normalised output."""
        x = functional.embedding(ids, self._weights.embeddings)
        for layer in self._weights.encoder:
            self._attend_self(x, layer, self._weights.encoder_bias, attention)
            x += layer.feed_forward(self._norm(x)).to(x.dtype)
        return self._norm(x)

    def _decode(self, batch: PackedBatch, encoded: Tensor, attention: Attention) -> Tensor:
        """[pairs, model]: the decoder's state at the end marks."""
        weights = self._weights
        x = functional.embedding(batch.decoder_ids, weights.embeddings)
        for layer in weights.decoder:
            self._attend_self(x, layer, weights.decoder_bias, attention)
            q = layer.cross_q(self._norm(x))
            k, v = layer.cross_kv(encoded).chunk(2, dim=-1)
            x += layer.cross_out(self._attend(q, k, v, weights.cross_bias, attention)).to(x.dtype)
            x += layer.feed_forward(self._norm(x)).to(x.dtype)
        return self._top_layer(x, batch.last_rows, encoded, attention)

    def _top_layer(self, x: Tensor, last_rows: Tensor, encoded: Tensor, attention: Attention) -> Tensor:
        weights, top = self._weights, self._weights.top
        normed = self._norm(x)
        q = top.attention.query(normed[last_rows])
        last = x[last_rows]
        last += top.attention.output(attention.attend_last(q, normed, weights.decoder_bias))
        q = top.cross.query(self._norm(last))
        last += top.cross.output(attention.attend_last(q, encoded, weights.cross_bias))
        last += top.feed_forward(self._norm(last))
        return last

    def _attend_self(
        self, x: Tensor, layer: EncoderLayer | DecoderLayer, bias: PositionBias, attention: Attention
    ) -> None:
        q, k, v = layer.qkv(self._norm(x)).chunk(3, dim=-1)
        x += layer.out(self._attend(q, k, v, bias, attention)).to(x.dtype)

    def _attend(
        self, q: Tensor, k: Tensor, v: Tensor, bias: PositionBias, attention: Attention
    ) -> Tensor:
        q, k, v = (tensor.view(len(tensor), self._weights.heads, -1) for tensor in (q, k, v))
        return attention.attend(q, k, v, bias).flatten(1)

    def _norm(self, x: Tensor) -> Tensor:
        """x over its root mean square, in the products' dtype; they hold the norm's weights."""
        if x.dtype is torch.float64:
            # Hugging Face takes the mean in float32 whatever the dtype: to prove equality, so do we.
            mean_square = x.float().pow(2).mean(-1, keepdim=True)
        else:
            mean_square = torch.linalg.vector_norm(x, dim=-1, keepdim=True).square() / x.shape[-1]
        return (x * torch.rsqrt(mean_square + self._weights.norm_epsilon)).to(self._weights.dtype)
