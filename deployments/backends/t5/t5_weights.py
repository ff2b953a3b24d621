"""A T5 classifier's weights, rearranged for the packed forward: fused, folded, and packed for a CPU."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

import torch
from torch import Tensor
from torch.nn import functional
from transformers import T5ForSequenceClassification

from crag_core.errors import SettingsError
from deployments.backends.t5.t5_attention import PositionBias
from deployments.backends.t5.t5_layers import (
    Activation,
    DecoderLayer,
    EncoderLayer,
    FeedForward,
    Head,
    LastQuery,
    Linear,
    TopLayer,
)

_ACTIVATIONS: dict[str, Activation] = {
    "relu": functional.relu_,
    "gelu": functional.gelu,
    "gelu_new": lambda x: functional.gelu(x, approximate="tanh"),
    "silu": functional.silu,
}

_LENGTH_STEP = 64
"""Bias tables hold the longest input, rounded up as padded inputs are."""


@dataclass(frozen=True, slots=True)
class T5Weights:
    """Every tensor of the packed forward.

    The products are in `dtype`; what T5 needs in at least float32 (embeddings, the sum over layers,
    biases, head) is in `wide`. The norms' weights are multiplied into the products after them.
    """

    dtype: torch.dtype
    wide: torch.dtype
    device: torch.device
    heads: int
    norm_epsilon: float
    start_id: int
    embeddings: Tensor
    encoder: Sequence[EncoderLayer]
    encoder_bias: PositionBias
    decoder: Sequence[DecoderLayer]
    decoder_bias: PositionBias
    cross_bias: PositionBias
    top: TopLayer
    head: Head

    @classmethod
    def of(
        cls,
        model: T5ForSequenceClassification,
        max_tokens: int,
        dtype: torch.dtype,
        device: torch.device,
    ) -> Self:
        """The weights of a model in float32 or float64, for inputs of at most `max_tokens`.

        Raises SettingsError for an activation that cannot be computed here.
        """
        transformer: Any = model.transformer
        encoder, decoder = transformer.encoder, transformer.decoder
        wide = torch.promote_types(dtype, torch.float32)
        arrange = _Arrangement(model, dtype, device)
        longest = -(-max_tokens // _LENGTH_STEP) * _LENGTH_STEP
        after_encoder = encoder.final_layer_norm.weight
        *lower, top = decoder.block
        return cls(
            dtype=dtype,
            wide=wide,
            device=device,
            heads=model.config.num_heads,
            norm_epsilon=model.config.layer_norm_epsilon,
            start_id=model.config.decoder_start_token_id,
            embeddings=transformer.shared.weight.detach().to(device, wide),
            encoder=[arrange.encoder_layer(block) for block in encoder.block],
            encoder_bias=PositionBias.of(_self_attention(encoder.block[0]), longest, wide, device),
            decoder=[arrange.decoder_layer(block, after_encoder) for block in lower],
            decoder_bias=PositionBias.of(_self_attention(decoder.block[0]), longest, wide, device),
            cross_bias=PositionBias.none(longest, wide, device),
            top=arrange.top_layer(top, after_encoder),
            head=_head(model.classification_head, decoder.final_layer_norm.weight, wide, device),
        )


class _Arrangement:
    def __init__(
        self, model: T5ForSequenceClassification, dtype: torch.dtype, device: torch.device
    ) -> None:
        config = model.config
        activation = _ACTIVATIONS.get(config.dense_act_fn)
        if activation is None:
            raise SettingsError(
                f"the T5 checkpoint uses the activation {config.dense_act_fn}; "
                f"known are {', '.join(_ACTIVATIONS)}"
            )
        self._activation = activation
        self._is_gated = bool(config.is_gated_act)
        self._heads = int(config.num_heads)
        self._dtype = dtype
        self._device = device

    def linear(self, modules: Sequence[Any], norm: Tensor | None = None, relu: bool = False) -> Linear:
        """One product in the place of several, with the norm before them multiplied in."""
        weight = torch.cat([module.weight.detach() for module in modules])
        return Linear(self._cast(weight if norm is None else weight * norm.detach()), relu=relu)

    def encoder_layer(self, block: Any) -> EncoderLayer:
        attention, norm = _self_attention(block), block.layer[0].layer_norm.weight
        return EncoderLayer(
            qkv=self.linear([attention.q, attention.k, attention.v], norm),
            out=self.linear([attention.o]),
            feed_forward=self._feed_forward(block),
        )

    def decoder_layer(self, block: Any, after_encoder: Tensor) -> DecoderLayer:
        layer = self.encoder_layer(block)
        cross, norm = block.layer[1].EncDecAttention, block.layer[1].layer_norm.weight
        return DecoderLayer(
            qkv=layer.qkv,
            out=layer.out,
            cross_q=self.linear([cross.q], norm),
            cross_kv=self.linear([cross.k, cross.v], after_encoder),
            cross_out=self.linear([cross.o]),
            feed_forward=layer.feed_forward,
        )

    def top_layer(self, block: Any, after_encoder: Tensor) -> TopLayer:
        norm, cross = block.layer[0].layer_norm.weight, block.layer[1]
        return TopLayer(
            attention=self._last_query(_self_attention(block), norm, norm),
            cross=self._last_query(cross.EncDecAttention, cross.layer_norm.weight, after_encoder),
            feed_forward=self._feed_forward(block),
        )

    def _last_query(self, attention: Any, before_query: Tensor, before_keys: Tensor) -> LastQuery:
        def by_head(module: Any) -> Tensor:
            weight = module.weight.detach() * before_keys.detach()
            return self._cast(weight.unflatten(0, (self._heads, -1)))

        return LastQuery(
            q=self.linear([attention.q], before_query),
            k=by_head(attention.k),
            v=by_head(attention.v),
            out=self.linear([attention.o]),
        )

    def _feed_forward(self, block: Any) -> FeedForward:
        dense, norm = block.layer[-1].DenseReluDense, block.layer[-1].layer_norm.weight
        return FeedForward(
            wide=self.linear(
                [dense.wi_0, dense.wi_1] if self._is_gated else [dense.wi], norm, relu=not self._is_gated
            ),
            narrow=self.linear([dense.wo]),
            activation=self._activation,
            is_gated=self._is_gated,
        )

    def _cast(self, weight: Tensor) -> Tensor:
        return weight.to(self._device, self._dtype).contiguous()


def _self_attention(block: Any) -> Any:
    return block.layer[0].SelfAttention


def _head(head: Any, norm: Tensor, wide: torch.dtype, device: torch.device) -> Head:
    dense, out = head.dense, head.out_proj

    def cast(tensor: Tensor) -> Tensor:
        return tensor.detach().to(device, wide)

    return Head(
        dense=cast(dense.weight * norm),
        dense_bias=cast(dense.bias),
        out=cast(out.weight),
        out_bias=cast(out.bias),
    )
