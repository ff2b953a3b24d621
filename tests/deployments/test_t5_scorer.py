"""The T5 scorer: Hugging Face's scores, the action of float32, and refusals that say what is wrong."""

import math
import random
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import AutoTokenizer, T5ForSequenceClassification

from crag_core.errors import EvaluationFailed, InvalidQuestion, SettingsError
from crag_core.types import Passage
from deployments.backends.batching.pair_scorer import PairScorer
from deployments.backends.evaluators.evaluator_manifest import (
    EvaluatorKind,
    EvaluatorThresholds,
    load_manifest,
)
from deployments.backends.evaluators.scorer import load_scorer
from deployments.backends.t5.t5_epsilon import measured_epsilon
from deployments.backends.t5.t5_scorer import T5Scorer
from deployments.settings import BatchingSettings, EvaluatorSettings
from tests.checkpoints import make_bert, make_t5, write_tiny_manifest

QUESTION = "Who wrote Emma?"
LONG = "word " * 10_000
TEXTS = ("Emma is a novel.", "</s>Emma</s></s>", "简·奥斯汀写了爱玛。", LONG, "x")
END = 1


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = make_t5(tmp_path_factory.mktemp("t5"))
    write_tiny_manifest(path, EvaluatorKind.T5)
    return path


def load(folder: Path, *, threads: int = 1, max_tokens_per_batch: int = 4096) -> T5Scorer:
    settings = EvaluatorSettings(
        model=str(folder),
        threads=threads,
        batching=BatchingSettings(max_tokens_per_batch=max_tokens_per_batch),
    )
    return T5Scorer(folder, load_manifest(folder), settings)


def make_inputs(count: int, seed: int = 0) -> list[list[int]]:
    chosen = random.Random(seed)
    return [
        [*(chosen.randrange(3, 90) for _ in range(chosen.randrange(1, 63))), END] for _ in range(count)
    ]


@torch.inference_mode()
def test_scores_are_those_of_hugging_faces_model(folder: Path) -> None:
    scorer: PairScorer = load(folder)
    prepared = scorer.prepare(QUESTION, [Passage(text) for text in (*TEXTS, "")])
    assert prepared[-1] is None
    pairs = [pair for pair in prepared if pair is not None]
    assert [pair.truncated for pair in pairs] == [text == LONG for text in TEXTS]
    theirs = T5ForSequenceClassification.from_pretrained(folder)
    expected = [theirs(input_ids=torch.tensor([pair.payload])).logits.item() for pair in pairs]
    assert scorer.score(pairs) == pytest.approx(expected, abs=1e-5)


def test_pair_is_read_as_one_text_by_the_template(folder: Path) -> None:
    (pair,) = load(folder).prepare(QUESTION, [Passage("A novel.", "Emma")])
    assert pair is not None
    theirs = AutoTokenizer.from_pretrained(folder)
    assert pair.payload == theirs(f"{QUESTION} [SEP] Emma // A novel.").input_ids


def test_equal_inputs_have_equal_keys(folder: Path) -> None:
    first, second, other = load(folder).prepare(QUESTION, [Passage("a"), Passage("a"), Passage("b")])
    assert first is not None and second is not None and other is not None
    assert first.key == second.key != other.key


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("max_tokens_per_batch", [64, 4096])
def test_pieces_and_threads_change_no_score(
    folder: Path, threads: int, max_tokens_per_batch: int
) -> None:
    inputs = make_inputs(40)
    before = torch.get_num_threads()
    try:
        scorer = load(folder, threads=threads, max_tokens_per_batch=max_tokens_per_batch)
        assert torch.get_num_threads() == threads
        alone = [scorer.score_ids([ids])[0] for ids in inputs]
        assert scorer.score_ids(inputs) == pytest.approx(alone, abs=1e-5)
        assert scorer.score_ids([]) == []
    finally:
        torch.set_num_threads(before)


def test_sharded_weights_score_alike(folder: Path, tmp_path: Path) -> None:
    sharded = make_t5(tmp_path / "sharded", max_shard_size="20KB")
    write_tiny_manifest(sharded, EvaluatorKind.T5)
    inputs = make_inputs(5)
    assert load(sharded).score_ids(inputs) == pytest.approx(load(folder).score_ids(inputs), abs=1e-6)


def test_bfloat16_scores_near_a_threshold_are_those_of_float32(folder: Path, tmp_path: Path) -> None:
    inputs = make_inputs(200)
    exact = load(folder).score_ids(inputs)
    by_rank = sorted(exact)
    thresholds = EvaluatorThresholds(upper=by_rank[140], lower=by_rank[60], strip=by_rank[100])

    quick = make_t5(tmp_path / "bf16")
    write_tiny_manifest(quick, EvaluatorKind.T5, dtype="bfloat16", thresholds=thresholds, epsilon=0.0)
    error = load(quick).engine.rounding_error(inputs)
    assert error > 0
    write_tiny_manifest(
        quick, EvaluatorKind.T5, dtype="bfloat16", thresholds=thresholds, epsilon=2 * error
    )
    scorer = load(quick)
    already = scorer.engine.scored
    scores = scorer.score_ids(inputs)

    limits = (thresholds.upper, thresholds.lower, thresholds.strip)
    assert [[s >= limit for limit in limits] for s in scores] == [
        [s >= limit for limit in limits] for s in exact
    ]
    assert scorer.engine.scored - already == len(inputs)
    assert len(inputs) * 0.05 <= scorer.engine.rescored < len(inputs)
    assert scores != pytest.approx(exact, abs=1e-6), "the other scores stay in bfloat16"


def test_question_too_long_for_the_window_is_refused(folder: Path) -> None:
    with pytest.raises(InvalidQuestion, match="shorten the question"):
        load(folder).prepare("why " * 100, [Passage("Because of everything that happened before.")])


@pytest.mark.parametrize("ids", [[], [5, 6], [5] * 64 + [END], [10_000, END], [-1, END]])
def test_input_the_model_does_not_read_is_refused_by_its_place(folder: Path, ids: list[int]) -> None:
    with pytest.raises(EvaluationFailed, match="input 2 is not one"):
        load(folder).score_ids([[5, END], ids])


def test_pair_whose_score_is_no_number_is_named(tmp_path: Path) -> None:
    damaged = make_t5(tmp_path / "damaged")
    weights = load_file(damaged / "model.safetensors")
    weights["transformer.shared.weight"][77] = math.nan
    save_file(weights, damaged / "model.safetensors", metadata={"format": "pt"})
    write_tiny_manifest(damaged, EvaluatorKind.T5)
    scorer = load(damaged)
    with pytest.raises(EvaluationFailed, match="no number for pair 1 of 1"):
        scorer.score_ids([[77, END]])
    with pytest.raises(EvaluationFailed, match="no number for pair 2 of 2"):
        scorer.score_ids([[*[5] * 31, END], [77, END]])
    assert all(map(math.isfinite, scorer.score_ids([[5, END], [6, END]])))


@pytest.mark.parametrize(
    ("changes", "complaint"),
    [({"outputs": 2}, "2 outputs"), ({}, "bfloat16 or float32")],
)
def test_checkpoint_that_is_no_evaluator_is_refused(
    tmp_path: Path, changes: dict[str, int], complaint: str
) -> None:
    folder = make_t5(tmp_path / "t5", **changes)  # type: ignore[arg-type]  # a table of keyword arguments
    write_tiny_manifest(folder, EvaluatorKind.T5, dtype="bfloat16" if changes else "float16")
    with pytest.raises(SettingsError, match=complaint):
        load(folder)


def test_checkpoint_of_another_architecture_is_refused(tmp_path: Path) -> None:
    folder = make_bert(tmp_path / "bert")
    write_tiny_manifest(folder, EvaluatorKind.T5)
    with pytest.raises(SettingsError, match="says kind t5, but the checkpoint is a bert"):
        load(folder)


def test_missing_head_is_refused(tmp_path: Path) -> None:
    folder = make_t5(tmp_path / "headless")
    weights = load_file(folder / "model.safetensors")
    kept = {name: w for name, w in weights.items() if not name.startswith("classification_head")}
    save_file(kept, folder / "model.safetensors", metadata={"format": "pt"})
    write_tiny_manifest(folder, EvaluatorKind.T5)
    with pytest.raises(SettingsError, match="lacks classification_head"):
        load(folder)


def test_shards_without_an_index_are_refused(tmp_path: Path) -> None:
    folder = make_t5(tmp_path / "sharded", max_shard_size="20KB")
    manifest = write_tiny_manifest(folder, EvaluatorKind.T5)
    (folder / "model.safetensors.index.json").unlink()
    with pytest.raises(SettingsError, match="no weights"):
        T5Scorer(folder, manifest, EvaluatorSettings(model=str(folder)))


def test_epsilon_of_a_checkpoint_is_twice_its_largest_rounding_error(tmp_path: Path) -> None:
    folder = make_t5(tmp_path)
    write_tiny_manifest(folder, EvaluatorKind.T5, dtype="bfloat16", epsilon=0.0)
    questions = [("Who wrote Emma?", [Passage(text) for text in TEXTS]), (LONG, [Passage("x")])]
    scorer = load(folder)
    inputs = [tokens.ids for tokens in scorer.tokenize(*questions[0]) if tokens]
    settings = EvaluatorSettings(model=str(folder))
    epsilon = measured_epsilon(settings, [questions[1], questions[0]], len(inputs))
    assert epsilon == 2 * scorer.engine.rounding_error(inputs) > 0
    with pytest.raises(SettingsError, match=f"{len(inputs)} different pairs, 99 are asked for"):
        measured_epsilon(settings, questions, 99)


def test_checkpoint_in_float32_has_no_epsilon_to_measure(folder: Path) -> None:
    with pytest.raises(SettingsError, match="only a t5 in bfloat16 is rounded"):
        measured_epsilon(EvaluatorSettings(model=str(folder)), [], 1)


@pytest.mark.parametrize(("able", "dtype"), [(True, "bfloat16"), (False, "float32")])
def test_bfloat16_is_used_where_the_cpu_multiplies_in_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, able: bool, dtype: str
) -> None:
    folder = make_t5(tmp_path)
    write_tiny_manifest(folder, EvaluatorKind.T5, dtype="bfloat16", epsilon=0.0)
    monkeypatch.setattr(torch.cpu, "get_capabilities", lambda: {"avx2": True, "amx_bf16": able})
    scorer = load_scorer(EvaluatorSettings(model=str(folder)))
    assert scorer.manifest.dtype == dtype
    assert scorer.identity.endswith(dtype), "scores of another dtype are not taken from the cache"
