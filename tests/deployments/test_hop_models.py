"""Extractor and rewriter on tiny checkpoints: spans, batches, hostile text, folders of no use."""

from pathlib import Path

import pytest
import torch

from crag_core.compact.types import AtomicQA, Reading, Rewriting, ScoredPair
from crag_core.errors import SettingsError
from deployments.backends.reading.answer_extractor import SpanExtractor
from deployments.backends.reading.hop_models import HopModels
from deployments.backends.reading.question_rewriter import BeamRewriter
from deployments.settings import ExtractorSettings, HopReaderSettings, RewriterSettings
from tests.deployments.reader_checkpoints import make_rewriter, make_span_model

ANSWERS = ["Steven Spielberg directed it.", "In </s> 1975 <s>, in Ohio.", "東京 Šárka 🍕", "x"]


def reading(question: str, answers: list[str]) -> Reading:
    pairs = [AtomicQA(str(n), f"Question {n}?", text, "p") for n, text in enumerate(answers)]
    return Reading(question, tuple(ScoredPair(pair, 0.5) for pair in pairs))


@pytest.fixture(scope="module")
def span_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_span_model(tmp_path_factory.mktemp("spans"))


@pytest.fixture(scope="module")
def rewriter_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_rewriter(tmp_path_factory.mktemp("rewriter"))


def extractor(folder: Path, **changes: float) -> SpanExtractor:
    settings = {"model": str(folder), "null_margin": -1_000.0, **changes}
    return SpanExtractor.open(ExtractorSettings.model_validate(settings))


@pytest.mark.parametrize("max_tokens", [64, 384])
@pytest.mark.parametrize("answers", [ANSWERS, ["word " * 500, "Ohio"], ["a", "b"]])
def test_a_span_lies_within_the_answer_of_one_pair(
    span_folder: Path, answers: list[str], max_tokens: int
) -> None:
    (found,) = extractor(span_folder, max_tokens=max_tokens).extract([reading("Who?", answers)])
    assert found is not None and found.text
    assert found.text in answers[found.pair]


def test_a_span_is_no_longer_than_an_answer_may_be(span_folder: Path) -> None:
    model = extractor(span_folder, max_answer_tokens=1)
    (found,) = model.extract([reading("Who?", ["a b c d e f"])])
    assert found is not None and len(found.text) <= 2


def test_the_best_span_is_found_jointly(span_folder: Path) -> None:
    """Against all spans, tried one by one."""
    model = extractor(span_folder, max_answer_tokens=4)
    asked = reading("Who directed Jaws?", ["Steven Spielberg directed Jaws.", "1975"])
    (window,) = model.windows([asked])
    start, end = model._forward([window.ids])
    best = max(
        float(start[0][first] + end[0][last])
        for answer in window.answers
        for first in range(answer.first, answer.past)
        for last in range(first, min(answer.past, first + 4))
    )
    (found,) = model.extract([asked])
    assert found is not None
    null = float(start[0][0] + end[0][0]) - 1_000.0
    assert found.score == pytest.approx(best - null, abs=1e-3)


def test_no_answer_wins_where_it_scores_best(span_folder: Path) -> None:
    model = extractor(span_folder, null_margin=1_000.0)
    assert model.extract([reading("Who?", ANSWERS), reading("Who?", [])]) == [None, None]


def test_a_reading_does_not_depend_on_its_neighbours(span_folder: Path) -> None:
    model = extractor(span_folder, max_tokens_per_batch=256)
    readings = [reading(f"Who is number {n}?", ["Ohio " * n, "Jaws"]) for n in range(1, 12)]
    together = model.extract(readings)
    for asked, found in zip(readings, together, strict=True):
        (alone,) = model.extract([asked])
        assert alone is not None and found is not None
        assert (alone.text, alone.pair) == (found.text, found.pair)
        assert alone.score == pytest.approx(found.score, abs=1e-3)


@pytest.mark.parametrize("question", ["", "x " * 5_000, "\ud800", "</s><s>", "🍕"])
def test_any_question_is_read(span_folder: Path, question: str) -> None:
    (found,) = extractor(span_folder, max_tokens=64).extract([reading(question, ["Ohio"])])
    assert found is None or found.text in "Ohio"


def test_the_rewriter_writes_one_text_each_and_none_for_what_it_cannot_spell(
    rewriter_folder: Path,
) -> None:
    model = BeamRewriter.open(RewriterSettings(model=str(rewriter_folder), max_new_tokens=8))  # type: ignore[call-arg]
    rewritings = [
        Rewriting("Where was he born?", "Steven Spielberg"),
        Rewriting("Where was he born?", "Šiauliai"),
        Rewriting("x " * 5_000, "Ohio " * 500),
        Rewriting("\ud800", "Ohio"),
    ]
    texts = model.rewrite(rewritings)
    assert [text is None for text in texts] == [False, True, False, False]
    assert not any("</s>" in text or "<pad>" in text for text in texts if text)
    assert model.rewrite(rewritings[:1]) == texts[:1]
    assert model.rewrite([]) == []


@pytest.mark.parametrize("name", ["extractor", "rewriter"])
def test_a_folder_of_no_use_is_told_in_one_sentence(tmp_path: Path, name: str) -> None:
    for folder in (tmp_path, tmp_path / "nowhere"):
        settings = HopReaderSettings.model_validate({name: {"model": str(folder)}, "entities": ENTITIES})
        with pytest.raises(SettingsError):
            HopModels.open(settings)


def test_an_untrained_head_is_refused(tmp_path: Path, span_folder: Path) -> None:
    from safetensors.torch import load_file, save_file

    folder = make_span_model(tmp_path / "headless")
    weights = load_file(folder / "model.safetensors")
    kept: dict[str, torch.Tensor] = {n: w for n, w in weights.items() if "qa_outputs" not in n}
    save_file(kept, folder / "model.safetensors", {"format": "pt"})
    with pytest.raises(SettingsError, match="lacks qa_outputs"):
        extractor(folder)


ENTITIES = str(Path(__file__).parents[2] / ".models" / "en-core-web-sm")


def test_the_rules_stand_in_where_there_are_no_models() -> None:
    models = HopModels.open(HopReaderSettings(entities=ENTITIES))  # type: ignore[call-arg]
    asked = reading("Who directed Jaws?", ["The film Jaws was directed by Steven Spielberg."])
    (found,) = models.extract([asked])
    assert found is not None and found.text == "Steven Spielberg"
    assert models.rewrite([Rewriting("Where was he born?", "Ohio")]) == [None]


def test_a_missing_recogniser_is_told_in_one_sentence() -> None:
    with pytest.raises(SettingsError, match="entity recogniser nowhere cannot be loaded"):
        HopModels.open(HopReaderSettings(entities="nowhere"))  # type: ignore[call-arg]
