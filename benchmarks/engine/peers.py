"""Other ways to score pairs with the same T5: the papers' loop, and what rerank servers do."""

import time
from collections.abc import Iterable, Sequence

import torch
from torch import Tensor
from transformers import T5ForSequenceClassification

from benchmarks.engine.pairs import LONGEST

Pairs = Sequence[Sequence[int]]
TEI_TOKENS = 16_384
"""Text Embeddings Inference's default `max_batch_tokens`."""

BEST_TOKENS = 1024
"""The padded tokens a batch at which Hugging Face's model is fastest on a CPU."""


_BATCH_SIZES = (1, 2, 4, 8, 16, 32)


def papers_loop(model: T5ForSequenceClassification, pairs: Pairs) -> list[float]:
    """One pair at a time, padded to 512 tokens, as the CRAG scripts do it."""
    return [score for pair in pairs for score in padded_batch(model, [pair], LONGEST)]


def one_by_one(model: T5ForSequenceClassification, pairs: Pairs) -> list[float]:
    """One pair at a time, without padding."""
    return [score for pair in pairs for score in padded_batch(model, [pair])]


def token_budget_sorted(model: T5ForSequenceClassification, pairs: Pairs) -> list[float]:
    """Batches of similar length."""
    order = sorted(range(len(pairs)), key=lambda i: len(pairs[i]))
    return _in_batches(model, pairs, order, BEST_TOKENS)


def in_order(model: T5ForSequenceClassification, pairs: Pairs, pairs_per_batch: int) -> list[float]:
    """Batches of so many pairs in the order of arrival, each padded to its longest."""
    batches = [pairs[i : i + pairs_per_batch] for i in range(0, len(pairs), pairs_per_batch)]
    return [score for batch in batches for score in padded_batch(model, batch)]


def best_batch_size(model: T5ForSequenceClassification, pairs: Pairs) -> int:
    """The number of pairs a batch at which batches in the order of arrival are fastest, by trial."""

    def seconds(size: int) -> float:
        started = time.perf_counter()
        in_order(model, pairs, size)
        return time.perf_counter() - started

    in_order(model, pairs[:8], 8)
    return min(_BATCH_SIZES, key=seconds)


def tei_like(model: T5ForSequenceClassification, pairs: Pairs) -> list[float]:
    """Batches in the order of arrival, up to 16,384 padded tokens."""
    return _in_batches(model, pairs, range(len(pairs)), TEI_TOKENS)


def _in_batches(
    model: T5ForSequenceClassification, pairs: Pairs, order: Iterable[int], tokens: int
) -> list[float]:
    scores = [0.0] * len(pairs)
    for batch in _cut(pairs, order, tokens):
        for i, score in zip(batch, padded_batch(model, [pairs[i] for i in batch]), strict=True):
            scores[i] = score
    return scores


def _cut(pairs: Pairs, order: Iterable[int], tokens: int) -> Iterable[list[int]]:
    batch: list[int] = []
    longest = 0
    for i in order:
        if batch and max(longest, len(pairs[i])) * (len(batch) + 1) > tokens:
            yield batch
            batch, longest = [], 0
        batch.append(i)
        longest = max(longest, len(pairs[i]))
    if batch:
        yield batch


@torch.inference_mode()
def padded_batch(
    model: T5ForSequenceClassification, pairs: Pairs, longest: int | None = None
) -> list[float]:
    """Hugging Face's forward of one batch, padded to `longest`, or else to its longest pair."""
    longest = longest or max(map(len, pairs))
    ids = torch.zeros(len(pairs), longest, dtype=torch.long)
    mask = torch.zeros_like(ids)
    for row, pair in enumerate(pairs):
        ids[row, : len(pair)] = torch.tensor(pair)
        mask[row, : len(pair)] = 1
    logits: Tensor = model(input_ids=ids.to(model.device), attention_mask=mask.to(model.device)).logits
    scores: list[float] = logits[:, 0].float().tolist()
    return scores
