"""T5 classifiers of the published sizes, with random weights: speed does not depend on them."""

from collections.abc import Iterator
from contextlib import contextmanager
from enum import StrEnum
from typing import Any

import torch
from transformers import T5Config, T5ForSequenceClassification

VOCABULARY = 32_128


class Shape(StrEnum):
    """Sizes of T5."""

    SMALL = "small"
    BASE = "base"
    LARGE = "large"

    @property
    def config(self) -> T5Config:
        """The published shape, with one output."""
        width, inner, layers, heads = {
            Shape.SMALL: (512, 2048, 6, 8),
            Shape.BASE: (768, 3072, 12, 12),
            Shape.LARGE: (1024, 4096, 24, 16),
        }[self]
        return t5_config(VOCABULARY, width, inner, layers, heads, 64)


def t5_config(
    vocabulary: int, width: int, inner: int, layers: int, heads: int, head_width: int
) -> T5Config:
    """A T5 with one output."""
    return T5Config.from_dict(
        {
            "vocab_size": vocabulary,
            "d_model": width,
            "d_ff": inner,
            "num_layers": layers,
            "num_heads": heads,
            "d_kv": head_width,
            "num_labels": 1,
            "decoder_start_token_id": 0,
        }
    )


def random_t5(
    config: T5Config, dtype: torch.dtype = torch.float32, device: str = "cpu"
) -> T5ForSequenceClassification:
    """A classifier with the random weights that belong to its shape, whatever the dtype."""
    torch.manual_seed(0)
    model: Any = T5ForSequenceClassification(config)
    classifier: T5ForSequenceClassification = model.to(device, dtype).eval()
    return classifier


def in_dtype(model: T5ForSequenceClassification, dtype: torch.dtype) -> T5ForSequenceClassification:
    """The same classifier in another dtype, made without a second copy in float32."""
    if model.dtype is dtype:
        return model
    with _default_dtype(dtype):
        cast: Any = T5ForSequenceClassification(model.config)
    cast.load_state_dict(model.state_dict())
    classifier: T5ForSequenceClassification = cast.eval()
    return classifier


def useful_flops(config: T5Config, tokens: int) -> int:
    """Multiplications and additions of one unpadded pair in both stacks, nothing left out."""
    d, f, layers = config.d_model, config.d_ff, config.num_layers
    encoder, decoder = 2 * layers * (4 * d * d + 2 * d * f), 2 * layers * (8 * d * d + 2 * d * f)
    attention = 3 * layers * 4 * tokens * d
    return int(tokens * (encoder + decoder + attention))


@contextmanager
def _default_dtype(dtype: torch.dtype) -> Iterator[None]:
    before = torch.get_default_dtype()
    torch.set_default_dtype(dtype)
    try:
        yield
    finally:
        torch.set_default_dtype(before)
