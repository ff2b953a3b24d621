"""Integrated gradients (Sundararajan 2017): a second method, where the evaluator has gradients."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from threading import Lock
from typing import Any

import torch
from torch import Tensor

from deployments.backends.evaluators.masking import PlacedTokens

_ONE_AT_A_TIME = Lock()
"""A way is followed by what is hung on the model, which threads share."""


@dataclass
class _Path:
    """Where between masked and whole an input is: what the embedding layer gives out on the way."""

    mask_id: int
    masked_ids: Tensor
    """Those ids of the vocabulary that the mask replaces, [vocabulary] of bool."""
    share: float = 1.0
    calls: list[tuple[Tensor, Tensor]] = field(default_factory=list)
    """Per call of the layer: what it gave out, and the way from masked to whole, [1, tokens, width]."""

    def embed(self, layer: Any, arguments: tuple[Tensor, ...], whole: Tensor) -> Tensor:
        """The layer's output, moved back towards the mask."""
        (ids,) = arguments
        base_ids = torch.where(self.masked_ids[ids], self.mask_id, ids)
        base = torch.nn.functional.embedding(base_ids, layer.weight).detach()
        way = whole.detach() - base
        given = (base + self.share * way).requires_grad_()
        self.calls.append((given, way))
        return given


def integrated_gradients(
    model: Any, placed: PlacedTokens, mask_id: int, *, steps: int = 32
) -> tuple[list[float], float]:
    """What each piece adds to a Hugging Face classifier's logit, and how far they miss the whole change.

    The way leads from the input whose pieces are all masked, none collapsed, to the input itself, in
    `steps` equal parts. A T5 reads the ids twice, in encoder and decoder: a value is the sum of both.
    """
    ids = torch.tensor([placed.tokens.ids])
    masked_ids = torch.zeros(model.get_input_embeddings().num_embeddings, dtype=torch.bool)
    own = {i for i, owner in zip(placed.tokens.ids, placed.owners, strict=True) if owner is not None}
    masked_ids[list(own)] = True
    path = _Path(mask_id, masked_ids)
    added = torch.zeros(len(placed.tokens.ids))
    with _ONE_AT_A_TIME, _followed(model, path):
        for step in range(steps):
            path.share, path.calls = (step + 0.5) / steps, []
            logit = _logit(model, ids, placed)
            gradients = torch.autograd.grad(logit, [given for given, _ in path.calls])
            for call, (gradient, (_, way)) in enumerate(zip(gradients, path.calls, strict=True)):
                gains = (gradient * way).sum(-1)[0] / steps
                added += gains if call == 0 else torch.cat([gains[1:], gains.new_zeros(1)])
        ends = []
        for path.share in (0.0, 1.0):
            path.calls = []
            ends.append(_logit(model, ids, placed).item())
    values = [0.0] * len(placed.pieces)
    for owner, gain in zip(placed.owners, added.tolist(), strict=True):
        if owner is not None:
            values[owner] += gain
    return values, abs(sum(values) - (ends[1] - ends[0]))


def _logit(model: Any, ids: Tensor, placed: PlacedTokens) -> Tensor:
    more = {}
    if getattr(model.config, "type_vocab_size", 0) > 0:
        more["token_type_ids"] = torch.tensor([placed.tokens.type_ids])
    logit: Tensor = model(input_ids=ids, attention_mask=torch.ones_like(ids), **more).logits[0, 0]
    return logit


@contextmanager
def _followed(model: Any, path: _Path) -> Iterator[None]:
    words = model.get_input_embeddings().weight.data_ptr()
    layers = (layer for layer in model.modules() if isinstance(layer, torch.nn.Embedding))
    # encoder and decoder may each have a layer of their own over the same weights
    hooks = [
        layer.register_forward_hook(path.embed) for layer in layers if layer.weight.data_ptr() == words
    ]
    try:
        yield
    finally:
        for hook in hooks:
            hook.remove()
