"""A T5 with random weights and a vocabulary of its own, where no published checkpoint can be had."""

import json
from collections.abc import Iterable
from pathlib import Path

import torch
from tokenizers import Tokenizer
from tokenizers.models import Unigram
from tokenizers.pre_tokenizers import Metaspace
from tokenizers.trainers import UnigramTrainer
from transformers import (
    AutoModelForSeq2SeqLM,
    AutoModelForSequenceClassification,
    T5Config,
    T5Tokenizer,
)

from training.options import T5Head, T5Shape

_SENTINELS = 100
_SPECIALS = ("<pad>", "</s>", "<unk>")
_VOCABULARY = 16_000
_HEADS = {T5Head.SCORE: AutoModelForSequenceClassification, T5Head.TEXT: AutoModelForSeq2SeqLM}


def make_t5(
    folder: Path,
    shape: T5Shape,
    texts: Iterable[str],
    seed: int = 0,
    head: T5Head = T5Head.SCORE,
) -> Path:
    """A base to fine-tune: the shape's random weights, and a unigram vocabulary trained on the texts."""
    tokenizer = Tokenizer(Unigram())
    tokenizer.pre_tokenizer = Metaspace()
    trainer = UnigramTrainer(
        vocab_size=_VOCABULARY, special_tokens=list(_SPECIALS), unk_token="<unk>", show_progress=False
    )
    tokenizer.train_from_iterator(texts, trainer)
    learnt = json.loads(tokenizer.to_str())["model"]["vocab"]
    sentinels = [(f"<extra_id_{number}>", 0.0) for number in reversed(range(_SENTINELS))]
    vocabulary = [*((piece, score) for piece, score in learnt), *sentinels]
    folder.mkdir(parents=True, exist_ok=True)
    T5Tokenizer(vocab=vocabulary, extra_ids=_SENTINELS).save_pretrained(folder)
    width, inner, layers, heads = shape.sizes
    config = T5Config.from_dict(
        {
            "vocab_size": len(vocabulary), "d_model": width, "d_ff": inner, "num_layers": layers,
            "num_heads": heads, "d_kv": max(width // heads, 16), "num_labels": 1,
            "decoder_start_token_id": 0, "dropout_rate": 0.0,
        }
    )  # fmt: skip
    torch.manual_seed(seed)
    model = _HEADS[head].from_config(config)  # type: ignore[no-untyped-call]  # theirs
    model.save_pretrained(folder)
    return folder
