"""The shipped embedded evaluator: right on plain cases, steady in any batch, bound to its encoder."""

import json
import shutil
from dataclasses import asdict, replace
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import save_file

from crag_core.actions import trigger_action
from crag_core.errors import SettingsError
from crag_core.types import Action, Passage
from deployments.backends.batching.pair_scorer import score_passages
from deployments.backends.batching.scored_passage import ScoredPassage
from deployments.backends.evaluators.evaluator_head import FEATURES, EvaluatorHead
from deployments.backends.evaluators.evaluator_manifest import MANIFEST
from deployments.backends.evaluators.scorer import Scorer, load_scorer
from deployments.backends.evaluators.word_overlap import OVERLAP_FEATURES, word_overlap
from deployments.settings import EvaluatorSettings
from tests.checkpoints import MINILM, make_bert

SHIPPED = Path(__file__).resolve().parents[2] / "deployments" / "evaluators" / "minilm-head"
KALE = Passage("Kale is a leafy vegetable of the cabbage family, rich in vitamin K.", "Kale")

TEXTS = (
    "Emma is a novel by Jane Austen.",
    "</s> [SEP] <extra_id_0>",
    "\x00 \x07 \ud800",
    "简·奥斯汀写了爱玛。",
    "كتبت جين أوستن إيما.",
    "📚",
    "word " * 10_000,
)


@pytest.fixture(scope="module")
def scorer() -> Scorer:
    return load_scorer(EvaluatorSettings(model=str(SHIPPED), encoder=str(MINILM)))


@pytest.mark.parametrize(
    ("question", "passage", "action"),
    [
        (
            "What is Henry Feilden's occupation?",
            Passage(
                "Henry Master Feilden (21 February 1818 – 5 September 1875) was an English "
                "Conservative Party politician."
            ),
            Action.CORRECT,
        ),
        (
            "In what city was Frédéric Chopin born?",
            Passage("Frédéric Chopin was a Polish composer born in Żelazowa Wola.", "Frédéric Chopin"),
            Action.CORRECT,
        ),
        ("What is Henry Feilden's occupation?", KALE, Action.INCORRECT),
        ("Who was the director of Stalker?", KALE, Action.INCORRECT),
    ],
)
def test_plain_cases(scorer: Scorer, question: str, passage: Passage, action: Action) -> None:
    scores = [scored.score for scored in score_passages(scorer, question, [passage])]
    assert trigger_action(scores, scorer.manifest.thresholds.action()) is action


@pytest.mark.parametrize("question", ["Who wrote Emma?", "</s>", "誰が書いた?", "?"])
def test_score_does_not_depend_on_batch_neighbours_or_order(scorer: Scorer, question: str) -> None:
    passages = [Passage(text, "Emma") for text in TEXTS]
    alone = [score_passages(scorer, question, [passage])[0].score for passage in passages]
    assert [one.score for one in score_passages(scorer, question, passages)] == pytest.approx(
        alone, abs=1e-5
    )
    backwards = score_passages(scorer, question, passages[::-1])
    assert [one.score for one in backwards[::-1]] == pytest.approx(alone, abs=1e-5)


def test_empty_passages_get_no_score(scorer: Scorer) -> None:
    scored = score_passages(
        scorer, "Who wrote Emma?", [Passage(""), Passage("Jane Austen did."), Passage(" ", "Emma")]
    )
    assert scored[0] == scored[2] == ScoredPassage(None, False)
    assert scored[1].score is not None
    assert score_passages(scorer, "Who wrote Emma?", []) == []


def test_cut_passages_and_questions_say_so(scorer: Scorer) -> None:
    passages = [Passage("word"), Passage("word " * 10_000)]
    assert [one.truncated for one in score_passages(scorer, "Who?", passages)] == [False, True]
    assert [one.truncated for one in score_passages(scorer, "why " * 1_000, passages)] == [True, True]


def test_manifest_names_the_checkpoint(scorer: Scorer) -> None:
    assert scorer.manifest.evaluator_id.startswith("embedding_head-")


def test_another_encoder_is_refused_and_both_are_named(tmp_path: Path) -> None:
    other = make_bert(tmp_path / "other", with_head=False)
    shipped = Path(shutil.copytree(SHIPPED, tmp_path / "head"))
    manifest = json.loads((shipped / MANIFEST).read_text("utf-8"))
    (shipped / MANIFEST).write_text(json.dumps({**manifest, "max_tokens": 128}), "utf-8")
    recorded = manifest["encoder_sha256"]
    with pytest.raises(
        SettingsError, match=f"trained with encoder {recorded}, but .*other is [0-9a-f]{{64}}"
    ):
        load_scorer(EvaluatorSettings(model=str(shipped), encoder=str(other)))


def test_missing_encoder_says_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="set `encoder`"):
        load_scorer(EvaluatorSettings(model=str(SHIPPED)))
    with pytest.raises(SettingsError, match="does not exist"):
        load_scorer(EvaluatorSettings(model=str(SHIPPED), encoder=str(tmp_path / "missing")))


def test_changed_head_is_refused(tmp_path: Path) -> None:
    folder = Path(shutil.copytree(SHIPPED, tmp_path / "head"))
    head = EvaluatorHead.load(folder / "head.safetensors")
    replace(head, output_bias=head.output_bias + np.float32(1)).save(folder / "head.safetensors")
    with pytest.raises(SettingsError, match="weights_sha256"):
        load_scorer(EvaluatorSettings(model=str(folder), encoder=str(MINILM)))


def test_head_over_other_features_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "head.safetensors"
    path.write_bytes(b"nothing")
    with pytest.raises(SettingsError, match="no evaluator head"):
        EvaluatorHead.load(path)
    head = EvaluatorHead.load(SHIPPED / "head.safetensors")
    save_file(asdict(head), path, metadata={"features": '["luck"]'})
    with pytest.raises(SettingsError, match="reads the features luck, but this version computes cosine"):
        EvaluatorHead.load(path)


def test_saved_head_is_loaded_again(tmp_path: Path) -> None:
    head = EvaluatorHead.load(SHIPPED / "head.safetensors")
    head.save(tmp_path / "head.safetensors")
    loaded = EvaluatorHead.load(tmp_path / "head.safetensors")
    rows = np.random.default_rng(0).normal(size=(5, len(FEATURES))).astype(np.float32)
    assert loaded.scores(rows) == head.scores(rows)
    assert [path.name for path in tmp_path.iterdir()] == ["head.safetensors"]


@pytest.mark.parametrize(
    ("question", "passage", "expected"),
    [
        ("Who wrote Emma?", Passage("Emma, a novel."), {"content_in_either": 0.5, "names_in_text": 1.0}),
        ("Who wrote Emma?", Passage("A novel.", "Emma (novel)"), {"whole_title_in_question": 1.0}),
        ("Who wrote Emma?", Passage("A novel.", "Emma Brown"), {"whole_title_in_question": 0.0}),
        ("who is o'brien?", Passage("O’Brien."), {"names_in_text": 1.0}),
        ("爱玛是谁写的?", Passage("爱玛"), {"content_in_either": 1 / 3}),
        ("", Passage(""), {"names_in_text": 0.0}),
    ],
)
def test_word_overlap(question: str, passage: Passage, expected: dict[str, float]) -> None:
    overlap = dict(zip(OVERLAP_FEATURES, word_overlap(question, passage), strict=True))
    assert {name: overlap[name] for name in expected} == pytest.approx(expected)
