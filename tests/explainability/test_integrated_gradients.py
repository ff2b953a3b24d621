from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import torch
from transformers import AutoModelForSequenceClassification

from crag_core.types import Passage
from deployments.backends.evaluators.evaluator_manifest import EvaluatorKind
from deployments.backends.evaluators.scorer import load_scorer
from deployments.settings import EvaluatorSettings
from explainability.integrated_gradients import integrated_gradients
from tests.checkpoints import make_bert, make_t5, write_tiny_manifest

QUESTION, PASSAGE = "Who?", Passage("Ada Byron wrote.", "Ada")


@pytest.mark.parametrize("kind", [EvaluatorKind.T5, EvaluatorKind.SEQUENCE_CLASSIFIER])
def test_gradients_add_up_to_what_masking_changes(kind: EvaluatorKind, tmp_path: Path) -> None:
    make = make_t5 if kind is EvaluatorKind.T5 else make_bert
    folder = make(tmp_path)
    write_tiny_manifest(folder, kind)
    model = AutoModelForSequenceClassification.from_pretrained(folder).eval()
    pair = load_scorer(EvaluatorSettings(model=str(folder))).maskable(QUESTION, PASSAGE)
    placed, mask_id = pair.placed, 4  # type: ignore[attr-defined]
    coarse, missed_coarsely = integrated_gradients(model, placed, mask_id, steps=8)
    fine, missed = integrated_gradients(model, placed, mask_id, steps=256)
    assert len(fine) == len(placed.pieces) == len(coarse)
    assert missed < 0.02 * max(abs(value) for value in fine) < 1e3
    assert missed <= missed_coarsely + 1e-4
    assert any(abs(value) > 1e-4 for value in fine)

    with torch.inference_mode():  # the model is as it was
        ids = torch.tensor([placed.tokens.ids])
        again = model(input_ids=ids).logits
    assert torch.isfinite(again).all()


def test_threads_may_share_a_model(tmp_path: Path) -> None:
    folder = make_t5(tmp_path)
    write_tiny_manifest(folder, EvaluatorKind.T5)
    model = AutoModelForSequenceClassification.from_pretrained(folder).eval()
    scorer = load_scorer(EvaluatorSettings(model=str(folder)))
    pairs = [scorer.maskable(f"{QUESTION} {number}", PASSAGE) for number in range(8)]
    placed = [pair.placed for pair in pairs]  # type: ignore[attr-defined]
    alone = [integrated_gradients(model, each, 4) for each in placed]
    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(lambda each: integrated_gradients(model, each, 4), placed)) == alone
