"""Tiny checkpoints with random weights, made on the fly: the real loading path, without a download."""

import string
from pathlib import Path

import torch
from transformers import (
    AutoModel,
    AutoModelForSequenceClassification,
    BertConfig,
    BertTokenizer,
    PreTrainedModel,
    T5Config,
    T5Tokenizer,
)

from deployments.backends.evaluators.evaluator_manifest import (
    EvaluatorKind,
    EvaluatorManifest,
    EvaluatorThresholds,
    PassageForm,
    write_manifest,
)
from deployments.backends.model_folder import sha256_of, tokenizer_file, weights_file, weights_sha256

MINILM = Path(__file__).resolve().parent.parent / ".models" / "all-minilm-l6-v2"
"""The embedded profile's encoder, fetched at set-up."""

T5_TEMPLATE = "{question} [SEP] {passage}"

_SEED = 7
_LETTERS = string.ascii_letters + string.digits + string.punctuation
_SENTINELS = 4


def make_t5(folder: Path, *, outputs: int = 1, max_shard_size: str = "1GB") -> Path:
    """A T5 sequence classifier as the CRAG authors save theirs: no `evaluator.json`.

    Its unigram vocabulary spells `</s>` and the sentinels, as T5's own does.
    """
    sentinels = [(f"<extra_id_{i}>", 0.0) for i in reversed(range(_SENTINELS))]
    specials = [("<pad>", 0.0), ("</s>", 0.0), ("<unk>", 0.0)]
    pieces = [("▁", -2.0), *((letter, -4.0) for letter in _LETTERS)]
    vocabulary = [*specials, *pieces, *sentinels]
    T5Tokenizer(vocab=vocabulary, extra_ids=_SENTINELS).save_pretrained(folder)
    config = T5Config.from_dict(
        {
            "vocab_size": len(vocabulary),
            "d_model": 32,
            "d_kv": 8,
            "d_ff": 64,
            "num_layers": 2,
            "num_heads": 4,
            "num_labels": outputs,
            "decoder_start_token_id": 0,
        }
    )
    torch.manual_seed(_SEED)
    model = AutoModelForSequenceClassification.from_config(config)  # type: ignore[no-untyped-call]  # theirs
    return _save(model, folder, max_shard_size)


def make_bert(folder: Path, *, outputs: int = 1, with_head: bool = True) -> Path:
    """A BERT sequence classifier, or the bare encoder without a head."""
    specials = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    pieces = [*string.printable.strip(), *(f"##{letter}" for letter in _LETTERS)]
    vocabulary = {token: i for i, token in enumerate(dict.fromkeys([*specials, *pieces]))}
    BertTokenizer(vocab=vocabulary, do_lower_case=False).save_pretrained(folder)
    config = BertConfig.from_dict(
        {
            "vocab_size": len(vocabulary),
            "hidden_size": 32,
            "num_hidden_layers": 2,
            "num_attention_heads": 4,
            "intermediate_size": 64,
            "max_position_embeddings": 128,
            "num_labels": outputs,
        }
    )
    torch.manual_seed(_SEED)
    kind = AutoModelForSequenceClassification if with_head else AutoModel
    model = kind.from_config(config)  # type: ignore[no-untyped-call]  # theirs
    return _save(model, folder)


def write_tiny_manifest(folder: Path, kind: EvaluatorKind, **changes: object) -> EvaluatorManifest:
    """A manifest that fits the checkpoint in the folder, with the changes asked for."""
    weights = weights_file(folder)
    fields = {
        "format": 1,
        "kind": kind,
        "weights": weights.name,
        "weights_sha256": weights_sha256(folder, weights.name),
        "tokenizer_sha256": sha256_of(tokenizer_file(folder)),
        "template": T5_TEMPLATE if kind is EvaluatorKind.T5 else None,
        "passage_form": PassageForm.TITLE_TEXT,
        "max_tokens": 64,
        "dtype": "float32",
        "thresholds": EvaluatorThresholds(upper=0.5, lower=-0.9, strip=-0.5),
        "epsilon": 1e-5,
        "trained_on": "nothing: random weights",
        "command": "tests/checkpoints.py",
    }
    manifest = EvaluatorManifest.model_validate({**fields, **changes})
    write_manifest(folder, manifest)
    return manifest


def _save(model: PreTrainedModel, folder: Path, max_shard_size: str = "1GB") -> Path:
    """Save with larger weights than at the start of training, so that inputs tell in the scores."""
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.dim() > 1:
                parameter.normal_(0.0, 0.2)
    model.save_pretrained(folder, max_shard_size=max_shard_size)
    return folder
