"""Training labels what it can tell, calibrates on unseen questions, and writes a loadable evaluator."""

import gzip
import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from crag_core.errors import SettingsError
from crag_core.types import Passage
from deployments.backends.dense_encoder import Embeddings
from deployments.backends.evaluators.evaluator_head import FEATURES, EvaluatorHead
from deployments.backends.evaluators.evaluator_manifest import load_manifest
from training.corpus import Bm25
from training.embedding_head import WEIGHTS, train, write_evaluator
from training.hard_pairs import hard_pairs
from training.head_fitting import TrainingSet, training_set
from training.labelled_pairs import LabelledPair, describe, labelled_pairs, read_records
from training.options import PopqaLabels
from training.thresholds import thresholds


class FakeEncoder:
    """Embeds a text by its letters."""

    def encode(self, texts: Sequence[str]) -> Embeddings:
        counts = [[text.count(letter) for letter in "abcdefgh"] for text in texts]
        return np.array(counts, dtype=np.float32)


def write(folder: Path, name: str, records: Sequence[dict[str, Any]]) -> None:
    lines = "".join(json.dumps(record) + "\n" for record in records)
    (folder / f"{name}.jsonl.gz").write_bytes(gzip.compress(lines.encode("utf-8")))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write(
        tmp_path,
        "wiki_corpus",
        [
            {"title": "Ann Lee", "text": "Ann Lee was a painter from the city of Leeds."},
            {"title": "Bob Ray", "text": "Bob Ray is a sculptor; his occupation is rare.\u2028"},
        ],
    )
    passages = [
        ("", "Ann Lee was known as a painter in England."),
        ("", "He was a painter of many old houses."),
        ("", "Ann Lee lived in a quiet street then."),
        ("Bob Ray", "Bob Ray was born in a small town."),
        ("", "Source:"),
    ]
    write(
        tmp_path,
        "popqa",
        [
            {
                "id": "1",
                "question": "What is Ann Lee's occupation?",
                "answers": ["painter", "art"],
                "subj": "Ann Lee",
                "obj": "painter",
                "s_wiki_title": "Ann Lee",
                "internal": [{"title": title or None, "text": text} for title, text in passages],
                "external": [],
            }
        ],
    )
    supported = {
        "id": "2",
        "question": "Who taught Bob Ray?",
        "supporting_titles": ["Bob Ray"],
        "paragraphs": [
            {"title": "Bob Ray", "text": "Bob Ray was taught by Ann.", "is_supporting": True},
            {"title": "Kale", "text": "Kale is a kind of cabbage.", "is_supporting": False},
        ],
        "decomposition": [
            {"question": "Bob Ray >> teacher", "support_title": "Bob Ray"},
            {"question": "#1 >> city", "support_title": "Kale"},
        ],
    }
    for name in ("hotpotqa", "2wiki", "musique"):
        write(tmp_path, name, [supported, {"paragraphs": []}])
    return tmp_path


def labels(pairs: Sequence[LabelledPair], dataset: str) -> dict[str, bool]:
    return {pair.passage.text: pair.is_relevant for pair in pairs if pair.dataset == dataset}


def test_popqa_labels_only_what_can_be_told(folder: Path) -> None:
    found = labels(labelled_pairs(folder), "popqa")
    assert found["Ann Lee was a painter from the city of Leeds."], "own page with the answer"
    assert found["Ann Lee was known as a painter in England."], "names the subject and the answer"
    assert not found["Bob Ray was born in a small town."], "another page"
    unclear = {
        "He was a painter of many old houses.",
        "Ann Lee lived in a quiet street then.",
        "Source:",
    }
    assert not unclear & found.keys()


def test_multi_hop_labels_are_the_sets_own_and_first_hops_stand_alone(folder: Path) -> None:
    pairs = [pair for pair in labelled_pairs(folder) if pair.dataset == "musique"]
    assert labels(pairs, "musique")["Bob Ray was taught by Ann."]
    assert not labels(pairs, "musique")["Kale is a kind of cabbage."]
    assert {pair.question for pair in pairs} == {"Who taught Bob Ray?", "Bob Ray teacher"}
    assert {pair.group for pair in pairs} == {"musique-2"}


def test_labels_by_title_are_the_original_recipe(folder: Path) -> None:
    found = labels(labelled_pairs(folder, ["popqa"], PopqaLabels.TITLE), "popqa")
    assert found["Ann Lee was a painter from the city of Leeds."], "the gold page"
    assert not found["Bob Ray was born in a small town."], "another page"
    assert "Ann Lee was known as a painter in England." not in found, "no title, no label"


@pytest.mark.parametrize(
    ("damage", "told"),
    [
        (lambda text: text[:-30], "popqa:1 is not JSON, or was cut"),
        (lambda text: text * 2, "popqa has ids more than once, such as 1"),
    ],
    ids=["cut", "twice"],
)
def test_broken_sets_are_refused(folder: Path, damage: Any, told: str) -> None:
    path = folder / "popqa.jsonl.gz"
    text = gzip.decompress(path.read_bytes()).decode()
    path.write_bytes(gzip.compress(damage(text).encode()))
    with pytest.raises(SettingsError, match=told):
        labelled_pairs(folder)


def test_a_set_without_labels_is_refused(folder: Path) -> None:
    with pytest.raises(SettingsError, match="pubqa has no labels"):
        labelled_pairs(folder, ["pubqa"])


def test_bm25_weighs_rare_words_and_short_texts() -> None:
    weighting = Bm25()
    weights = weighting.fit_transform(["kale kale soup", "kale", "soup bread oven salt"])
    query = weighting.transform(["kale kale", "oven soup"])
    kale, oven = (weights @ query.T).toarray().T
    # two of three texts have it: ln(1 + 1.5 / 2.5); 8 words in 3 texts; k1 1.2, b 0.75
    rarity, mean = np.log(1.6), 8 / 3
    lengths = [0.25 + 0.75 * words / mean for words in (3, 1)]
    expected = [
        rarity * count * 2.2 / (count + 1.2 * of) for count, of in zip((2, 1), lengths, strict=True)
    ]
    assert kale == pytest.approx([*expected, 0.0], rel=1e-5)
    assert oven.argmax() == 2 and oven[1] == 0.0


def test_hard_pairs_hold_the_relevant_and_what_bm25_finds_on_other_pages(folder: Path) -> None:
    pairs = labelled_pairs(folder)
    hard = hard_pairs(folder, pairs)
    assert [pair for pair in hard if pair.is_relevant] == [pair for pair in pairs if pair.is_relevant]
    found = {(pair.question, pair.passage.text[:7]) for pair in hard if not pair.is_relevant}
    assert ("What is Ann Lee's occupation?", "Bob Ray") in found
    assert ("Who taught Bob Ray?", "Ann Lee") in found
    assert ("What is Ann Lee's occupation?", "Ann Lee") not in found, "its own page"


def test_labelled_pairs_are_the_same_every_time(folder: Path) -> None:
    assert labelled_pairs(folder) == labelled_pairs(folder)


def test_missing_question_set_is_named(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match=r"neither popqa\.jsonl nor popqa\.jsonl\.gz"):
        read_records(tmp_path, "popqa")


def test_thresholds_follow_their_rules() -> None:
    groups = np.array([f"q{i}" for i in range(10) for _ in range(2)])
    relevant = np.array([True, False] * 10)
    scores = np.array([value for i in range(10) for value in (i / 10, -1.0 - i / 10)], dtype=np.float32)
    scores[0:4] = [-2.0, 0.85, -2.0, 0.05]  # two questions whose best passage is a wrong one
    found = thresholds(relevant, scores, groups)
    reached = [i for i in range(10) if max(scores[2 * i : 2 * i + 2]) >= found.upper]
    right = [i for i in reached if scores[2 * i] > scores[2 * i + 1]]
    assert len(right) / len(reached) >= 0.8
    assert found.lower == pytest.approx(np.quantile(scores[relevant], 0.1), abs=1e-3)
    assert found.lower <= found.strip <= found.upper


@pytest.mark.parametrize(("separation", "lowest", "highest"), [(4.0, 0.9, 1.0), (0.0, 0.4, 0.6)])
def test_head_learns_what_there_is_and_is_measured_on_unseen_questions(
    separation: float, lowest: float, highest: float
) -> None:
    rng = np.random.default_rng(0)
    relevant = rng.random(4_000) < 0.3
    features = rng.normal(size=(4_000, len(FEATURES))).astype(np.float32)
    features[:, 0] += separation * relevant
    examples = TrainingSet(
        features=features,
        targets=np.where(relevant, 1.0, -1.0).astype(np.float32),
        weights=np.ones(4_000, dtype=np.float32),
        datasets=np.array(["left", "right"] * 2_000),
        kinds=np.array(["left: city", "right: sport"] * 2_000),
        groups=np.array([f"q{i // 10}" for i in range(4_000)]),
        entities=np.arange(4_000) // 10,
    )
    nearer = features.copy()
    nearer[~relevant, 0] += separation / 4
    hard = replace(examples, features=nearer)
    trained = train(examples, hard)
    for rows in (trained.quality, trained.hard_quality):
        assert [row.name for row in rows] == ["all", "left", "right", "left: city", "right: sport"]
        assert all(lowest < row.auc < highest for row in rows)
        assert all(
            row.over_cosine.low <= row.auc - row.auc_cosine <= row.over_cosine.high for row in rows
        )
    assert trained.hard_quality[0].auc <= trained.quality[0].auc
    assert {"linear", "boosted trees"} < {way.name for way in trained.tried}
    assert all(lowest < way.auc < highest for way in trained.tried)
    assert trained.quality[1].auc_left_out is not None and lowest < trained.quality[1].auc_left_out


def test_written_evaluator_is_loaded_again(folder: Path, tmp_path: Path) -> None:
    pairs = [
        LabelledPair(
            "popqa", f"q{i % 10}", "who is abc", Passage("abc" if i % 2 else "xyz", ""), bool(i % 2)
        )
        for i in range(40)
    ] + [
        LabelledPair(
            "musique", f"m{i % 10}", "who is def", Passage("def" if i % 2 else "x", ""), bool(i % 2)
        )
        for i in range(40)
    ]
    examples = training_set(pairs, FakeEncoder())
    trained = train(examples, examples)
    write_evaluator(tmp_path / "out", trained, "a" * 64, describe(pairs))
    manifest = load_manifest(tmp_path / "out")
    assert manifest.thresholds == trained.thresholds
    assert manifest.trained_on == "80 pairs, 40 of them relevant, of popqa, musique"
    EvaluatorHead.load(tmp_path / "out" / WEIGHTS)
    assert {path.name for path in (tmp_path / "out").iterdir()} == {WEIGHTS, "evaluator.json"}
