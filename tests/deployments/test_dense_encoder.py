"""The dense encoder gives one embedding per text, whatever the text and whatever the batch."""

import shutil
from pathlib import Path

import numpy as np
import pytest

from crag_core.errors import SettingsError
from deployments.backends.dense_encoder import DenseEncoder
from deployments.backends.tokenization import pack
from deployments.settings import EncoderSettings, Pooling
from tests.checkpoints import MINILM, make_bert, make_t5

TEXTS = (
    "Łódź is a city in Poland.",
    "",
    " \n ",
    "[SEP] [CLS] [PAD] </s>",
    "\x00 \x07 \ud800",
    "罗兹是波兰的一个城市。",
    "لودز مدينة في بولندا",
    "🦊",
    "word " * 10_000,
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_bert(tmp_path_factory.mktemp("encoder"), with_head=False)


def encoder(folder: Path, **changes: object) -> DenseEncoder:
    fields = {"model": str(folder), "max_tokens": 64, **changes}
    return DenseEncoder(EncoderSettings.model_validate(fields))


@pytest.mark.parametrize("pooling", list(Pooling))
def test_order_and_batches_change_nothing(folder: Path, pooling: Pooling) -> None:
    alone = np.vstack([encoder(folder, pooling=pooling).encode([text]) for text in TEXTS])
    together = encoder(folder, pooling=pooling).encode(TEXTS)
    in_small_batches = encoder(folder, pooling=pooling, max_tokens_per_batch=64).encode(TEXTS)
    assert together.shape == (len(TEXTS), 32) and together.dtype == np.float32
    np.testing.assert_allclose(together, alone, atol=1e-5)
    np.testing.assert_allclose(in_small_batches, alone, atol=1e-5)
    np.testing.assert_allclose(np.linalg.norm(together, axis=1), 1.0, atol=1e-5)


def test_pooling_and_normalisation_are_settings(folder: Path) -> None:
    text = ["Łódź is a city in Poland."]
    raw = encoder(folder, normalise=False).encode(text)
    assert np.linalg.norm(raw) != pytest.approx(1.0, abs=1e-2)
    np.testing.assert_allclose(raw / np.linalg.norm(raw), encoder(folder).encode(text), atol=1e-6)
    assert not np.allclose(encoder(folder, pooling="cls").encode(text), encoder(folder).encode(text))


def test_no_text_gives_no_row(folder: Path) -> None:
    assert encoder(folder).encode([]).shape == (0, 32)


def test_long_text_is_cut_and_marked(folder: Path) -> None:
    encoded = encoder(folder).encode_marked(["word", "word " * 10_000])
    assert encoded.truncated == (False, True)


def test_fingerprint_follows_config_tokenizer_and_weights(folder: Path, tmp_path: Path) -> None:
    original = encoder(folder).fingerprint
    assert encoder(Path(shutil.copytree(folder, tmp_path / "same"))).fingerprint == original
    for name in ("config.json", "tokenizer.json"):
        copy = Path(shutil.copytree(folder, tmp_path / name))
        (copy / name).write_bytes((copy / name).read_bytes() + b"\n")
        assert encoder(copy).fingerprint != original


def test_missing_folder_says_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="does not exist: correct the setting or fetch the model"):
        encoder(tmp_path / "missing")


def test_folder_without_weights_or_tokenizer_is_refused(folder: Path, tmp_path: Path) -> None:
    for name, message in (("model.safetensors", "no encoder"), ("tokenizer.json", "no tokenizer")):
        copy = Path(shutil.copytree(folder, tmp_path / name))
        (copy / name).unlink()
        with pytest.raises(SettingsError, match=message):
            encoder(copy)


def test_encoder_decoder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="t5 that is no complete encoder: it has a decoder"):
        encoder(make_t5(tmp_path / "t5"))


def test_window_longer_than_the_encoder_reads_is_refused(folder: Path) -> None:
    with pytest.raises(SettingsError, match="max_tokens 256 is more than the 128 tokens"):
        encoder(folder, max_tokens=256)


@pytest.mark.parametrize(
    ("lengths", "max_tokens", "batches"),
    [
        ([], 10, []),
        ([5, 5], 10, [[0, 1]]),
        ([5, 6], 10, [[0], [1]]),
        ([20, 1], 10, [[1], [0]]),
        ([3, 9, 2, 3], 9, [[2, 0, 3], [1]]),
    ],
)
def test_pack_bounds_padded_tokens(
    lengths: list[int], max_tokens: int, batches: list[list[int]]
) -> None:
    assert list(pack(lengths, max_tokens)) == batches


def test_minilm_knows_what_belongs_together() -> None:
    question, near, far = encoder(MINILM, max_tokens=256).encode(
        [
            "In what city was Chopin born?",
            "Frédéric Chopin was born in Żelazowa Wola.",
            "Kale is a cabbage.",
        ]
    )
    assert question @ near > 0.5 > question @ far
