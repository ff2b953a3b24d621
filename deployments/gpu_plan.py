"""The GPU memory plan: whether the models fit the cards that a config places them on."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from ray.serve.schema import ServeDeploySchema
from transformers import (
    AutoConfig,
    AutoModelForCausalLM,
    AutoModelForQuestionAnswering,
    AutoModelForSeq2SeqLM,
    AutoModelForSequenceClassification,
)
from transformers.configuration_utils import PretrainedConfig

from deployments.backends.evaluators.evaluator_manifest import EvaluatorKind, load_manifest
from deployments.backends.model_folder import model_folder
from deployments.backends.reading.question_rewriter import PER_BATCH
from deployments.doctor import Finding
from deployments.local import app_settings
from deployments.settings import (
    AppSettings,
    EvaluatorSettings,
    ExtractorSettings,
    GeneratorSettings,
    HopReaderSettings,
    RewriterSettings,
)

_GIB = 1024**3
_CONTEXT_GIB = 0.6
"""What the CUDA context of one process takes, whatever the model."""

_ROUNDING = 1e-6
_BYTES = {"float32": 4, "bfloat16": 2, "float16": 2, "auto": 2}


@dataclass(frozen=True, slots=True)
class Share:
    """What one deployment takes of a card, in GiB."""

    weights: float
    kv_cache: float
    peak: float

    @property
    def total(self) -> float:
        """All of it, the process's CUDA context included."""
        return self.weights + self.kv_cache + self.peak + _CONTEXT_GIB

    def __str__(self) -> str:
        return (
            f"weights {self.weights:.2f} + KV {self.kv_cache:.2f} + peak {self.peak:.2f} "
            f"+ context {_CONTEXT_GIB} = {self.total:.2f} GiB"
        )


def plan_gpu(config: ServeDeploySchema, card_gib: float) -> Iterator[Finding]:
    """The memory of each deployment on a card of `card_gib`, and whether those that share one fit.

    Sizes come from the models' own configurations; nothing is loaded. Raises SettingsError when a
    model is not there.
    """
    settings = app_settings(config)
    fractions = _gpu_fractions(config)
    generator = generator_share(settings.generator, card_gib)
    evaluator = evaluator_share(settings.evaluator)
    kv_tokens = int(generator.kv_cache * _GIB / kv_bytes_per_token(settings.generator))
    yield Finding(
        "generator memory",
        kv_tokens >= settings.generator.max_model_len,
        f"{generator}; KV for {kv_tokens:,} tokens, "
        f"{kv_tokens / settings.generator.max_model_len:.1f} sequences of full length",
        "raise gpu_memory_utilization, or lower max_model_len",
    )
    yield Finding("evaluator memory", evaluator.total <= card_gib, str(evaluator), "use a larger card")
    shares = {"Generator": generator, "Evaluator": evaluator}
    if reader := _reader_on_a_card(settings):
        shares["HopReader"] = hop_reader_share(reader)
        yield Finding(
            "hop reader memory",
            shares["HopReader"].total <= card_gib,
            str(shares["HopReader"]),
            "lower extractor.max_tokens_per_batch, or use a larger card",
        )
    beside = _beside(shares, fractions)
    if beside:
        total = sum(shares[name].total for name in beside)
        yield Finding(
            "shared card",
            total <= card_gib,
            f"{total:.2f} of {card_gib:.0f} GiB for {', '.join(beside)}",
            "lower the generator's gpu_memory_utilization, or give each a card",
        )
        yield Finding(
            "start order",
            settings.generator.wait_for_evaluator,
            "the generator waits for the evaluator"
            if settings.generator.wait_for_evaluator
            else "the generator measures free memory while the evaluator may still be loading",
            "set generator.wait_for_evaluator to true",
        )


def _beside(shares: dict[str, Share], fractions: dict[str, float]) -> list[str]:
    """The deployments that Ray may put on one card: all of them, else generator and evaluator."""
    for names in (list(shares), ["Generator", "Evaluator"]):
        if sum(fractions[name] for name in names) <= 1.0 + _ROUNDING:
            return names
    return []


def _reader_on_a_card(settings: AppSettings) -> HopReaderSettings | None:
    """What of the hop reader's models runs on a card, if any does."""
    if settings.compact is None:
        return None
    reader = settings.compact.reader
    on_cpu = {
        name: None
        for name in ("extractor", "rewriter")
        if (model := getattr(reader, name)) is None or not model.device.startswith("cuda")
    }
    return None if len(on_cpu) == 2 else reader.model_copy(update=on_cpu)


def generator_share(settings: GeneratorSettings, card_gib: float) -> Share:
    """vLLM fills its share of the card: what weights and activations leave becomes KV cache."""
    config = _config(settings.model, settings.revision)
    per_card = settings.tensor_parallel_size
    weights = _parameters(AutoModelForCausalLM, config) * _BYTES[settings.dtype] / _GIB / per_card
    batched_tokens = max(settings.max_model_len, 2048)
    widest = (
        config.vocab_size * settings.max_num_seqs * 4 + batched_tokens * config.intermediate_size * 4
    )
    peak = widest / _GIB
    kv_cache = settings.gpu_memory_utilization * card_gib - weights - peak - _CONTEXT_GIB
    return Share(weights, max(0.0, kv_cache), peak)


def evaluator_share(settings: EvaluatorSettings) -> Share:
    """Weights, and the activations of the largest batch; an embedding head weighs as its encoder."""
    folder = model_folder(settings.model)
    manifest = load_manifest(folder)
    if manifest.kind is EvaluatorKind.EMBEDDING_HEAD:
        folder = model_folder(settings.encoder or settings.model)
    config = _config(str(folder), None)
    size = _BYTES[manifest.dtype]
    width = getattr(config, "d_ff", None) or config.intermediate_size
    heads = config.num_attention_heads
    attention = heads * settings.batching.max_tokens_per_batch * manifest.max_tokens * size
    peak = (attention + 4 * settings.batching.max_tokens_per_batch * width * size) / _GIB
    return Share(_parameters(AutoModelForSequenceClassification, config) * size / _GIB, 0.0, peak)


def hop_reader_share(settings: HopReaderSettings) -> Share:
    """Weights in float32, and the activations of the largest batch, of extractor and rewriter."""
    shares = [
        *([_extractor_share(settings.extractor)] if settings.extractor else []),
        *([_rewriter_share(settings.rewriter)] if settings.rewriter else []),
    ]
    return Share(sum(each.weights for each in shares), 0.0, sum(each.peak for each in shares))


def _extractor_share(settings: ExtractorSettings) -> Share:
    config = _config(settings.model, settings.revision)
    attention = config.num_attention_heads * settings.max_tokens
    peak = settings.max_tokens_per_batch * (attention + 4 * config.intermediate_size)
    size = _BYTES["float32"] / _GIB
    return Share(_parameters(AutoModelForQuestionAnswering, config) * size, 0.0, peak * size)


def _rewriter_share(settings: RewriterSettings) -> Share:
    """Each beam has keys and values of its own, of the input and of what is written."""
    config = _config(settings.model, settings.revision)
    tokens = PER_BATCH * settings.beams * (settings.max_input_tokens + settings.max_new_tokens)
    peak = tokens * (4 * config.d_ff + 2 * config.num_layers * config.num_heads * config.d_kv)
    size = _BYTES["float32"] / _GIB
    return Share(_parameters(AutoModelForSeq2SeqLM, config) * size, 0.0, peak * size)


def kv_bytes_per_token(settings: GeneratorSettings) -> int:
    """Keys and values of one token in every layer, on one card."""
    config = _config(settings.model, settings.revision)
    heads = getattr(config, "num_key_value_heads", None) or config.num_attention_heads
    dimension = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
    size = 2 * config.num_hidden_layers * heads * dimension * _BYTES[settings.dtype]
    return int(size) // settings.tensor_parallel_size


def _gpu_fractions(config: ServeDeploySchema) -> dict[str, float]:
    fractions = {"Generator": 1.0, "Evaluator": 1.0, "HopReader": 1.0}
    for deployment in config.applications[0].deployments:
        given = getattr(deployment.ray_actor_options, "num_gpus", None)
        if deployment.name in fractions and given is not None:
            fractions[deployment.name] = float(given)
    return fractions


def _parameters(architecture: Any, config: PretrainedConfig) -> int:
    """Counted on torch's meta device, which holds shapes and no weights."""
    with torch.device("meta"):
        model = architecture.from_config(config, trust_remote_code=False)
    return sum(parameter.numel() for parameter in model.parameters())


def _config(model: str, revision: str | None) -> PretrainedConfig:
    folder: Path = model_folder(model, revision)
    config: PretrainedConfig = AutoConfig.from_pretrained(folder, trust_remote_code=False)
    return config
