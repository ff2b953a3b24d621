"""Cross-encoders score any text in any batch alike, and refuse checkpoints that are no evaluators."""

import math
from collections.abc import Sequence
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from crag_core.errors import EvaluationFailed, InvalidQuestion, SettingsError
from crag_core.types import Passage
from deployments.backends.batching.pair_scorer import score_passages
from deployments.backends.batching.scored_passage import ScoredPassage
from deployments.backends.evaluators.cross_encoder import CrossEncoder
from deployments.backends.evaluators.evaluator_manifest import EvaluatorKind, PassageForm, load_manifest
from deployments.backends.evaluators.scorer import load_scorer
from deployments.settings import BatchingSettings, EvaluatorSettings
from tests.checkpoints import make_bert, make_t5, write_tiny_manifest

QUESTION = "Who wrote Emma?"
TEXTS = (
    "Emma is a novel.",
    "</s>Emma</s></s>",
    "[SEP] Emma [CLS] [PAD]",
    "<extra_id_0> and <pad>",
    "control \x00 \x07 \u200b characters",
    "a lone surrogate \ud800",
    "简·奥斯汀写了爱玛。",
    "كتبت جين أوستن إيما.",
    "emoji 📚🇵🇱",
    "word " * 10_000,
    "x",
)


@pytest.fixture(scope="module")
def t5_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = make_t5(tmp_path_factory.mktemp("t5"))
    write_tiny_manifest(folder, EvaluatorKind.T5)
    return folder


@pytest.fixture(scope="module")
def bert_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = make_bert(tmp_path_factory.mktemp("bert"))
    write_tiny_manifest(folder, EvaluatorKind.SEQUENCE_CLASSIFIER)
    return folder


@pytest.fixture(params=["t5_folder", "bert_folder"])
def folder(request: pytest.FixtureRequest) -> Path:
    path: Path = request.getfixturevalue(request.param)
    return path


def load(folder: Path, max_tokens_per_batch: int = 4096) -> CrossEncoder:
    batching = BatchingSettings(max_tokens_per_batch=max_tokens_per_batch)
    settings = EvaluatorSettings(model=str(folder), batching=batching)
    return CrossEncoder(folder, load_manifest(folder), settings)


def scores(scorer: CrossEncoder, texts: Sequence[str], question: str = QUESTION) -> list[float]:
    scored = score_passages(scorer, question, [Passage(text) for text in texts])
    return [one.score for one in scored if one.score is not None]


def test_score_does_not_depend_on_batch_neighbours_or_order(folder: Path) -> None:
    scorer = load(folder)
    alone = [scores(scorer, [text])[0] for text in TEXTS]
    assert len({round(score, 4) for score in alone}) > len(TEXTS) // 2, "inputs must tell in the scores"
    assert scores(scorer, TEXTS) == pytest.approx(alone, abs=1e-5)
    assert scores(scorer, TEXTS[::-1]) == pytest.approx(alone[::-1], abs=1e-5)
    assert scores(load(folder, max_tokens_per_batch=64), TEXTS) == pytest.approx(alone, abs=1e-5)


def test_empty_passages_are_never_sent(folder: Path) -> None:
    scored = score_passages(
        load(folder), QUESTION, [Passage(""), Passage("Emma"), Passage(" \n\t", "Emma")]
    )
    assert scored[0] == scored[2] == ScoredPassage(None, False)
    assert scored[1].score is not None
    assert score_passages(load(folder), QUESTION, []) == []


def test_passage_that_tokenises_to_nothing_is_empty(bert_folder: Path) -> None:
    assert score_passages(load(bert_folder), QUESTION, [Passage("\x00\x07")]) == [
        ScoredPassage(None, False)
    ]


@pytest.mark.parametrize("text", TEXTS)
def test_t5_input_has_one_end_mark_and_no_sentinel(t5_folder: Path, text: str) -> None:
    (tokens,) = load(t5_folder).tokenize(f"</s> {QUESTION} <extra_id_1>", [Passage(text)])
    assert tokens is not None
    assert tokens.ids.count(1) == 1 and tokens.ids[-1] == 1
    assert tokens.ids.count(0) == 0
    vocabulary_without_sentinels = 4 + 94
    assert max(tokens.ids) < vocabulary_without_sentinels


def test_bert_input_has_exactly_its_own_separators(bert_folder: Path) -> None:
    (tokens,) = load(bert_folder).tokenize("[SEP] who [CLS]?", [Passage("[SEP] Emma [PAD]")])
    assert tokens is not None
    assert [tokens.ids.count(i) for i in (0, 2, 3, 4)] == [0, 1, 2, 0]
    assert tokens.type_ids == sorted(tokens.type_ids) and set(tokens.type_ids) == {0, 1}


def test_long_passage_loses_its_end_and_says_so(folder: Path) -> None:
    scorer = load(folder)
    longer, longest = (scorer.tokenize(QUESTION, [Passage("word " * n)])[0] for n in (5_000, 10_000))
    assert longer is not None and longer.truncated and len(longer.ids) == scorer.manifest.max_tokens
    assert longer == longest
    short, long = score_passages(scorer, QUESTION, [Passage("word"), Passage("word " * 10_000)])
    assert (short.truncated, long.truncated) == (False, True)


def test_question_too_long_for_the_window_is_refused_not_cut(folder: Path) -> None:
    with pytest.raises(InvalidQuestion, match="shorten the question"):
        score_passages(
            load(folder), "why " * 100, [Passage("Because of everything that happened before.")]
        )


def test_title_is_part_of_the_input_only_when_the_manifest_says_so(
    t5_folder: Path, tmp_path: Path
) -> None:
    titled, plain = Passage("A novel.", "Emma"), Passage("A novel.")
    with_title = load(t5_folder).tokenize(QUESTION, [titled, plain])
    assert with_title[0] != with_title[1]

    folder = make_t5(tmp_path / "text")
    write_tiny_manifest(folder, EvaluatorKind.T5, passage_form=PassageForm.TEXT)
    without = load(folder).tokenize(QUESTION, [titled, plain])
    assert without[0] == without[1]


def test_braces_in_a_question_are_plain_text(t5_folder: Path) -> None:
    tokens = load(t5_folder).tokenize("{passage} {question} {0}", [Passage("{x}")])
    assert tokens[0] is not None


def test_sharded_weights_score_alike(t5_folder: Path, tmp_path: Path) -> None:
    folder = make_t5(tmp_path / "sharded", max_shard_size="20KB")
    write_tiny_manifest(folder, EvaluatorKind.T5)
    assert scores(load(folder), TEXTS) == pytest.approx(scores(load(t5_folder), TEXTS), abs=1e-6)


def test_two_outputs_are_refused(tmp_path: Path) -> None:
    folder = make_t5(tmp_path / "two", outputs=2)
    write_tiny_manifest(folder, EvaluatorKind.T5)
    with pytest.raises(SettingsError, match="2 outputs"):
        load(folder)


def test_checkpoint_without_a_head_is_refused(tmp_path: Path) -> None:
    folder = make_bert(tmp_path / "bare", with_head=False)
    write_tiny_manifest(folder, EvaluatorKind.SEQUENCE_CLASSIFIER)
    with pytest.raises(SettingsError, match="lacks classifier"):
        load(folder)


def test_kind_must_be_the_checkpoints_own(tmp_path: Path) -> None:
    folder = make_bert(tmp_path / "bert")
    write_tiny_manifest(folder, EvaluatorKind.T5)
    with pytest.raises(SettingsError, match="says kind t5, but the checkpoint is a bert"):
        load(folder)


def test_unknown_architecture_is_refused(tmp_path: Path) -> None:
    folder = make_bert(tmp_path / "odd")
    write_tiny_manifest(folder, EvaluatorKind.SEQUENCE_CLASSIFIER)
    (folder / "config.json").write_text('{"model_type": "oracle"}', "utf-8")
    with pytest.raises(SettingsError, match="sequence classifier"):
        load(folder)


def test_window_longer_than_the_checkpoint_reads_is_refused(tmp_path: Path) -> None:
    folder = make_bert(tmp_path / "bert")
    write_tiny_manifest(folder, EvaluatorKind.SEQUENCE_CLASSIFIER, max_tokens=512)
    with pytest.raises(SettingsError, match="max_tokens 512, but the checkpoint reads 128"):
        load(folder)


def test_missing_folder_says_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="does not exist: correct the setting"):
        load_scorer(EvaluatorSettings(model=str(tmp_path / "missing")))


def test_unknown_device_is_refused(t5_folder: Path) -> None:
    with pytest.raises(SettingsError, match="no torch device warp9"):
        load_scorer(EvaluatorSettings(model=str(t5_folder), device="warp9"))


def test_scores_that_are_no_numbers_fail_the_evaluation(tmp_path: Path) -> None:
    folder = make_bert(tmp_path / "bert")
    weights = load_file(folder / "model.safetensors")
    weights["classifier.bias"] = torch.tensor([math.nan])
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
    write_tiny_manifest(folder, EvaluatorKind.SEQUENCE_CLASSIFIER)
    with pytest.raises(SettingsError, match="cannot score a pair") as refused:
        load(folder)
    assert isinstance(refused.value.__cause__, EvaluationFailed)
