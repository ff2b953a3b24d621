"""The engine's benchmark measures the same scores everywhere, and knows wrong decisions."""

import json
from pathlib import Path

import pytest
import torch
import typer
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import Whitespace

from benchmarks.engine.decisions import Decisions, agreement, decide
from benchmarks.engine.pairs import pairs_of
from benchmarks.engine.peers import one_by_one, padded_batch, tei_like, token_budget_sorted
from benchmarks.engine.real_pairs import real_pairs
from benchmarks.engine.serve_batch import ServeBatch
from benchmarks.engine.shapes import in_dtype, random_t5, t5_config
from deployments.backends.t5.t5_engine import T5Engine

CONFIG = t5_config(100, 32, 64, 2, 4, 8)
LENGTHS = [5, 40, 17, 3, 90, 33, 8, 64, 21]


def test_every_peer_gives_the_reference_scores() -> None:
    model, pairs = random_t5(CONFIG), pairs_of(LENGTHS, 100)
    expected = pytest.approx(one_by_one(model, pairs), abs=1e-5)
    assert token_budget_sorted(model, pairs) == expected
    assert tei_like(model, pairs) == expected
    assert padded_batch(model, pairs) == expected
    assert ServeBatch(model, max_pairs=4, wait_s=0.001)(pairs) == expected


def test_bfloat16_copy_has_the_rounded_weights_and_leaves_the_default_dtype() -> None:
    model = random_t5(CONFIG)
    rounded = {name: weight.bfloat16() for name, weight in model.state_dict().items()}
    half = in_dtype(model, torch.bfloat16).state_dict()
    assert all(torch.equal(half[name], weight) for name, weight in rounded.items())
    assert torch.get_default_dtype() is torch.float32


def test_safe_decisions_are_float32s_with_enough_of_them_close() -> None:
    engine = T5Engine(random_t5(CONFIG), max_tokens=512, dtype=torch.bfloat16)
    known, judged = pairs_of(LENGTHS * 6, 100, seed=1), pairs_of(LENGTHS * 30, 100, seed=2)
    decided = decide(engine, known, judged)
    assert decided.are_right
    assert 0.05 <= decided.near_share < 1
    assert decided.largest_error > 0
    assert engine.safety.epsilon == decided.epsilon > 0


@pytest.mark.parametrize(
    ("share", "near", "is_right"), [(1.0, 0.06, True), (0.999, 0.06, False), (1.0, 0.01, False)]
)
def test_one_wrong_decision_or_too_few_close_ones_fail(
    share: float, near: float, is_right: bool
) -> None:
    assert Decisions(1000, (0.0,), 0.1, near, share, 0.9, 0.05).are_right is is_right


def test_agreement_counts_a_score_that_crossed_any_threshold() -> None:
    assert agreement([0.1, 0.5, 0.9, 0.4], [0.1, 0.5, 0.9, 0.6], [0.0, 0.5]) == 0.75


def test_real_pairs_are_question_and_passage_with_the_end_mark_last(tmp_path: Path) -> None:
    said = ["who", "wrote", "emma", "?", "[", "SEP", "]", "jane", "austen", "did", "."]
    words = ["[PAD]", "[END]", "[UNK]", *said]
    tokenizer = Tokenizer(WordLevel({word: i for i, word in enumerate(words)}, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = Whitespace()
    tokenizer.save(str(tmp_path / "tokenizer.json"))
    row = {"question": "who wrote emma ?", "internal": [{"title": None, "text": "jane austen did ."}]}
    unknown = {"question": "who wrote [PAD] ?", "internal": [{"title": None, "text": "jane did"}]}
    lines = "".join(json.dumps(each) + "\n" for each in (row, row, unknown))
    (tmp_path / "popqa.jsonl").write_text(lines)
    (tmp_path / "hotpotqa.jsonl").write_text("")
    (pair,) = real_pairs(tmp_path, tmp_path, vocabulary=100, count=1)
    assert [words[i] for i in pair[:-1]] == said
    assert pair[-1] == 1
    with pytest.raises(typer.BadParameter, match="has 1 different pairs, 5 are asked for"):
        real_pairs(tmp_path, tmp_path, vocabulary=100, count=5)
    with pytest.raises(typer.BadParameter, match="more than the model's 4 embeddings"):
        real_pairs(tmp_path, tmp_path, vocabulary=4, count=1)
