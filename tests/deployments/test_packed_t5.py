"""The packed T5 gives Hugging Face's own logit, at every length and in any company."""

import random
from collections.abc import Sequence

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from transformers import T5Config, T5ForSequenceClassification

from crag_core.errors import SettingsError
from deployments.backends.t5.packed_t5 import PackedT5
from deployments.backends.t5.t5_attention import PositionBias
from deployments.backends.t5.t5_cuda_graphs import padded_shape
from deployments.backends.t5.t5_gpu_attention import DocumentAttention, PaddedAttention
from deployments.backends.t5.t5_weights import T5Weights

VARIANTS = {
    "t5": {},
    "t5-v1.1": {"feed_forward_proj": "gated-gelu", "tie_word_embeddings": False},
    "one decoder layer": {"num_decoder_layers": 1},
    "wide heads, deep decoder": {"num_decoder_layers": 3, "d_kv": 16},
}
VOCABULARY, END, LONGEST = 100, 1, 512
CPU = torch.device("cpu")
LENGTHS = [1, 2, 3, 15, 16, 17, 31, 64, 100, 191, 192, 193, 300, 511, 512]
FEW_LENGTHS = [1, 17, 40, 100, 200]


def make_model(**changes: object) -> T5ForSequenceClassification:
    torch.manual_seed(3)
    shape = {"vocab_size": VOCABULARY, "d_model": 32, "d_kv": 8, "d_ff": 64, "num_layers": 2}
    config = T5Config(
        **{**shape, "num_heads": 4, "num_labels": 1, "decoder_start_token_id": 0, **changes}
    )
    model = T5ForSequenceClassification(config).eval().double()
    with torch.no_grad():
        for parameter in model.parameters():
            # Norms that differ from one, and weights large enough for inputs to tell in the logits.
            parameter.uniform_(0.5, 1.5) if parameter.dim() == 1 else parameter.normal_(0.0, 0.2)
    return model


def make_pairs(lengths: Sequence[int], seed: int = 0) -> list[list[int]]:
    chosen = random.Random(seed)
    return [[*(chosen.randrange(3, VOCABULARY) for _ in range(n - 1)), END] for n in lengths]


@torch.inference_mode()
def reference(model: T5ForSequenceClassification, pairs: Sequence[Sequence[int]]) -> torch.Tensor:
    """Hugging Face's own forward, one pair at a time."""
    return torch.cat([model(input_ids=torch.tensor([pair])).logits[:, 0] for pair in pairs])


def packed(model: T5ForSequenceClassification, dtype: torch.dtype = torch.float64) -> PackedT5:
    return PackedT5(T5Weights.of(model, LONGEST, dtype, CPU))


@pytest.fixture(scope="module", params=VARIANTS.values(), ids=VARIANTS.keys())
def model(request: pytest.FixtureRequest) -> T5ForSequenceClassification:
    return make_model(**request.param)


def test_logits_are_hugging_faces_own_in_float64(model: T5ForSequenceClassification) -> None:
    pairs = make_pairs(LENGTHS)
    expected = reference(model, pairs)
    assert expected.std() > 0.1, "inputs must tell in the logits"
    assert (packed(model).logits(pairs) - expected).abs().max() <= 1e-10


@settings(max_examples=8, deadline=None)
@given(st.lists(st.integers(1, 180), min_size=1, max_size=12), st.integers(0, 9))
def test_any_packing_gives_the_same_logits(lengths: list[int], seed: int) -> None:
    model = make_model()
    pairs = make_pairs(lengths, seed)
    assert (packed(model).logits(pairs) - reference(model, pairs)).abs().max() <= 1e-10


@pytest.mark.parametrize(("dtype", "bound"), [(torch.float32, 1e-5), (torch.bfloat16, 1e-1)])
def test_a_logit_does_not_depend_on_its_neighbours(dtype: torch.dtype, bound: float) -> None:
    engine = packed(make_model(), dtype)
    pairs = make_pairs(FEW_LENGTHS)
    alone = torch.cat([engine.logits([pair]) for pair in pairs])
    assert (engine.logits(pairs) - alone).abs().max() <= bound
    assert (engine.logits(pairs[::-1]).flip(0) - alone).abs().max() <= bound


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_attention_for_a_gpu_gives_the_same_logits(
    model: T5ForSequenceClassification, dtype: torch.dtype
) -> None:
    engine = packed(model, dtype)
    pairs = make_pairs([3, 40, 1, 130, 64])
    expected = engine.logits(pairs)
    bound = 1e-4 if dtype is torch.float32 else 1e-10
    with torch.inference_mode():
        batch = engine.packed(pairs)
        flex = DocumentAttention(batch.spans, batch.last_rows, len(batch.ids))
        assert (engine.forward(batch, flex)[: len(pairs)] - expected).abs().max() <= bound
        shape = padded_shape(pairs)
        assert shape == (8, 192)
        padded, lengths = engine.padded(pairs, *shape)
        dense = PaddedAttention(lengths, shape[1])
        assert (engine.forward(padded, dense)[: len(pairs)] - expected).abs().max() <= bound


def test_bfloat16_stays_near_float32() -> None:
    model = make_model()
    pairs = make_pairs(FEW_LENGTHS)
    expected = reference(model, pairs)
    error = (packed(model, torch.bfloat16).logits(pairs) - expected).abs().max()
    assert 0 < error < expected.std() / 2


def test_embeddings_of_the_language_model_are_not_scaled() -> None:
    """Tied word embeddings scale the language model's head only; a classifier has none."""
    pairs = make_pairs([5, 40])
    tied, untied = make_model(tie_word_embeddings=True), make_model(tie_word_embeddings=False)
    assert torch.equal(packed(tied).logits(pairs), packed(untied).logits(pairs))


def test_activation_t5_never_had_is_refused() -> None:
    model = make_model()
    model.config.dense_act_fn = "tanh"
    with pytest.raises(SettingsError, match="activation tanh"):
        packed(model)


@pytest.mark.parametrize("is_decoder", [False, True])
def test_one_bias_table_serves_every_length(is_decoder: bool) -> None:
    model = make_model()
    stack = model.transformer.decoder if is_decoder else model.transformer.encoder
    attention = stack.block[0].layer[0].SelfAttention
    bias = PositionBias.of(attention, LONGEST, torch.float64, CPU)
    for length in LENGTHS:
        expected = attention.compute_bias(length, length)
        if is_decoder:
            expected = expected + torch.full((length, length), -torch.inf).triu(1)
        assert torch.equal(bias.block(length, slice(0, length), length), expected[0])
