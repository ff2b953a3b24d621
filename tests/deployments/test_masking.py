"""Masking for each kind of evaluator: what stays, what becomes of the rest, and that scores agree."""

from pathlib import Path

import pytest

from crag_core.context import Lane, RequestContext
from crag_core.explaining import ExplainAsk, Method, Side
from crag_core.types import Passage
from deployments.backends.evaluators.batched_evaluator import BatchedEvaluator
from deployments.backends.evaluators.evaluator_manifest import EvaluatorKind, PassageForm
from deployments.backends.evaluators.masking import MaskablePair
from deployments.backends.t5.t5_scorer import MaskableT5
from deployments.settings import EvaluatorSettings
from explainability.explaining import ScoreExplainer
from tests.checkpoints import MINILM, make_bert, make_t5, write_tiny_manifest

QUESTION = "Who wrote Emma?"
PASSAGES = {
    "plain": Passage("Jane Austen wrote the novel Emma in 1815."),
    "titled": Passage("It is a novel.", "Emma"),
    "one token": Passage("E"),
    "too long": Passage("Emma is a novel. " * 60),
    "repeated": Passage("Emma Emma Emma Emma"),
    "chinese": Passage("《爱玛》是简·奥斯汀的小说。"),
    "arabic": Passage("إيما رواية كتبتها جين أوستن."),
    "poison": Passage("The tag </s> and <extra_id_0> and [SEP] [MASK] is Emma."),
    "blanks": Passage("  Emma \n\n is   here  "),
}


def marks_of(pair: MaskablePair) -> tuple[int, ...]:
    assert isinstance(pair, MaskableT5)
    return pair.marks


def context() -> RequestContext:
    return RequestContext.starting_now("r", 60.0, Lane.EXPLAIN)


@pytest.fixture(scope="module")
def t5(tmp_path_factory: pytest.TempPathFactory) -> BatchedEvaluator:
    folder = make_t5(tmp_path_factory.mktemp("t5"))
    write_tiny_manifest(folder, EvaluatorKind.T5)
    return BatchedEvaluator(EvaluatorSettings(model=str(folder)))


@pytest.fixture(scope="module")
def bert(tmp_path_factory: pytest.TempPathFactory) -> BatchedEvaluator:
    folder = make_bert(tmp_path_factory.mktemp("bert"))
    write_tiny_manifest(folder, EvaluatorKind.SEQUENCE_CLASSIFIER)
    return BatchedEvaluator(EvaluatorSettings(model=str(folder)))


@pytest.fixture(scope="module")
def embedded() -> BatchedEvaluator:
    head = "deployments/evaluators/minilm-head"
    return BatchedEvaluator(EvaluatorSettings(model=head, encoder=str(MINILM)))


@pytest.fixture(params=["t5", "bert", "embedded"])
def evaluator(request: pytest.FixtureRequest) -> BatchedEvaluator:
    chosen: BatchedEvaluator = request.getfixturevalue(request.param)
    return chosen


@pytest.mark.parametrize("name", PASSAGES)
async def test_with_all_kept_the_score_is_the_pairs_own(evaluator: BatchedEvaluator, name: str) -> None:
    passage = PASSAGES[name]
    whole = (await evaluator.evaluate(context(), QUESTION, [passage])).scores[0]
    read = await evaluator.pieces(context(), QUESTION, passage)
    everything = (1 << len(read.pieces)) - 1
    scores = await evaluator.evaluate_masked(context(), QUESTION, passage, [0, everything])
    assert scores[1] == pytest.approx(whole, abs=1e-5)
    assert scores[0] != scores[1]


@pytest.mark.parametrize("name", PASSAGES)
async def test_pieces_are_slices_of_the_texts_in_order(evaluator: BatchedEvaluator, name: str) -> None:
    passage = PASSAGES[name]
    read = await evaluator.pieces(context(), QUESTION, passage)
    texts = {Side.QUESTION: QUESTION, Side.TITLE: passage.title, Side.PASSAGE: passage.text}
    for side, text in texts.items():
        pieces = [piece for piece in read.pieces if piece.side is side]
        assert all(text[piece.start : piece.end] == piece.text for piece in pieces)
        assert [piece.start for piece in pieces] == sorted({piece.start for piece in pieces})
    said = "".join(piece.text for piece in read.pieces if piece.side is Side.QUESTION)
    assert said.replace(" ", "") == "WhowroteEmma?"


@pytest.mark.parametrize("name", PASSAGES)
async def test_every_pair_is_explained_and_adds_up(evaluator: BatchedEvaluator, name: str) -> None:
    ask = ExplainAsk(QUESTION, PASSAGES[name], method=Method.PARTITION, max_evaluations=64)
    explanation = await ScoreExplainer(evaluator).explain(context(), ask)
    assert explanation.additivity_error < 1e-4
    assert explanation.truncated or name != "too long"


async def test_a_masked_run_is_one_sentinel_and_the_end_mark_stays(t5: BatchedEvaluator) -> None:
    pair = t5.scorer.maskable("ab", Passage("cd"))
    letters = [piece.text for piece in pair.read.pieces]
    assert letters == ["a", "b", "[", "S", "E", "P", "]", "c", "d"]
    sentinels = marks_of(pair)
    assert len(sentinels) == 4
    eos, (first, second, *_) = 1, sentinels
    whole = pair.masked(0b111111111).payload
    assert pair.masked(0).payload == [first, eos]
    inner = pair.masked(0b110111101).payload  # without "b" and without "P"
    assert (inner.count(first), inner.count(second)) == (1, 1)
    assert len(inner) == len(whole) and inner[-1] == eos and inner.count(eos) == 1


async def test_more_runs_than_sentinels_share_the_last(t5: BatchedEvaluator) -> None:
    pair = t5.scorer.maskable("abcdef", Passage("abcdef"))
    kept = sum(1 << place for place in range(0, len(pair.read.pieces), 2))
    ids = pair.masked(kept).payload
    assert set(marks_of(pair)) <= set(ids) and ids.count(marks_of(pair)[-1]) > 1
    assert ids.count(1) == 1


async def test_a_cross_encoder_keeps_its_length_its_types_and_its_marks(bert: BatchedEvaluator) -> None:
    pair = bert.scorer.maskable(QUESTION, PASSAGES["plain"])
    whole = pair.masked((1 << len(pair.read.pieces)) - 1).payload
    empty = pair.masked(0).payload
    assert empty.type_ids == whole.type_ids
    assert len(set(empty.ids)) == 3, "[CLS], [SEP] and the mask"
    assert [i for i in empty.ids if i != 4] == [whole.ids[0], 3, 3]


async def test_a_head_reads_neither_text_nor_ids_of_what_is_masked(embedded: BatchedEvaluator) -> None:
    pair = embedded.scorer.maskable(QUESTION, Passage("Emma is here.", "Emma"))
    texts = [piece.text for piece in pair.read.pieces]
    kept = sum(1 << place for place, text in enumerate(texts) if text != "Emma")
    left = pair.masked(kept).payload
    assert "Emma" not in left.question + left.passage.title + left.passage.text
    assert left.passage.text.endswith("is here.")
    assert len(left.asked.ids) == len(pair.masked(-1).payload.asked.ids)


async def test_words_beyond_the_encoders_window_can_be_masked_too(embedded: BatchedEvaluator) -> None:
    pair = embedded.scorer.maskable(QUESTION, Passage("Emma is a novel. " * 200))
    assert pair.read.truncated
    assert sum(piece.text == "Emma" for piece in pair.read.pieces) >= 200
    assert pair.masked(0).payload.passage.text.strip() == ""


def test_the_form_without_a_title_has_no_title_pieces(tmp_path: Path) -> None:
    folder = make_t5(tmp_path)
    write_tiny_manifest(folder, EvaluatorKind.T5, passage_form=PassageForm.TEXT)
    scorer = BatchedEvaluator(EvaluatorSettings(model=str(folder))).scorer
    sides = {piece.side for piece in scorer.maskable("a", Passage("b", "T")).read.pieces}
    assert sides == {Side.QUESTION, Side.SEPARATOR, Side.PASSAGE}
