"""Tiny span and sequence-to-sequence checkpoints with random weights: the real loading path."""

from pathlib import Path

import torch
from tokenizers import ByteLevelBPETokenizer
from tokenizers.processors import RobertaProcessing
from transformers import (
    AutoModelForQuestionAnswering,
    AutoModelForSeq2SeqLM,
    PreTrainedTokenizerFast,
    RobertaConfig,
    T5Config,
)

from tests.checkpoints import make_t5

_TEXT = ["Who directed Jaws? Steven Spielberg directed Jaws in 1975. Where was he born? Ohio."]


def make_span_model(folder: Path) -> Path:
    """A RoBERTa that answers by spans, with a byte-level vocabulary."""
    trained = ByteLevelBPETokenizer()
    special = ["<s>", "<pad>", "</s>", "<unk>"]
    trained.train_from_iterator(_TEXT, vocab_size=300, special_tokens=special)
    trained._tokenizer.post_processor = RobertaProcessing(("</s>", 2), ("<s>", 0))
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=trained._tokenizer,
        bos_token="<s>",
        cls_token="<s>",
        eos_token="</s>",
        sep_token="</s>",
        pad_token="<pad>",
        unk_token="<unk>",
    )
    tokenizer.save_pretrained(folder)
    config = RobertaConfig(
        vocab_size=len(tokenizer),
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=64,
        max_position_embeddings=520,
        pad_token_id=1,
        type_vocab_size=1,
    )
    torch.manual_seed(7)
    AutoModelForQuestionAnswering.from_config(config).save_pretrained(folder)  # type: ignore[no-untyped-call]  # theirs
    return folder


def make_rewriter(folder: Path) -> Path:
    """A T5 that generates; its vocabulary spells ASCII alone, as T5's own lacks most of Unicode."""
    make_t5(folder)
    config = T5Config.from_pretrained(folder)
    config.decoder_start_token_id = 0
    config.architectures = None
    torch.manual_seed(7)
    (folder / "model.safetensors").unlink()
    AutoModelForSeq2SeqLM.from_config(config).save_pretrained(folder)  # type: ignore[no-untyped-call]  # theirs
    return folder
