"""Ablation: a feature that is off changes what an answer costs, and never a score."""

from pathlib import Path

import pytest
import torch

from benchmarks.ablation.command import Questions, _loaded
from benchmarks.ablation.evaluators import (
    PaddedT5,
    ServeBatchedEvaluator,
    UnpackedEvaluator,
    UnprunedEvaluator,
)
from benchmarks.ablation.features import VARIANTS, WHOLE
from benchmarks.engine.pairs import pairs_of
from benchmarks.engine.serve_batch import pretend_to_be_a_replica
from benchmarks.engine.shapes import random_t5, t5_config
from benchmarks.peers.answers import without_compact
from benchmarks.served_application import read_config
from crag_core.context import RequestContext
from crag_core.types import Passage
from deployments.backends.evaluators.evaluator_manifest import EvaluatorKind
from deployments.backends.t5.packed_t5 import PackedT5
from deployments.backends.t5.t5_weights import T5Weights
from deployments.evaluator import Evaluator
from deployments.messages import EvaluateRequest, WireContext
from deployments.settings import AppSettings, EvaluatorSettings
from tests.checkpoints import make_t5, write_tiny_manifest

ROOT = Path(__file__).parents[2]
PASSAGES = tuple(Passage("a naturalist " * words) for words in (1, 3, 0, 2))


def test_padding_changes_no_logit() -> None:
    model = random_t5(t5_config(100, 32, 64, 2, 4, 8))
    weights = T5Weights.of(model, 128, torch.float32, torch.device("cpu"))
    pairs = pairs_of([5, 90, 17, 33], 100)
    expected = PackedT5(weights).logits(pairs)
    assert torch.allclose(PaddedT5(weights).logits(pairs), expected, atol=1e-6)


@pytest.mark.parametrize("kind", [UnpackedEvaluator, UnprunedEvaluator, ServeBatchedEvaluator])
async def test_an_evaluator_without_a_feature_gives_the_same_scores(
    kind: type[Evaluator], tmp_path: Path
) -> None:
    write_tiny_manifest(make_t5(tmp_path), EvaluatorKind.T5)
    settings = EvaluatorSettings.model_validate({"model": str(tmp_path)})
    ctx = RequestContext.starting_now("test", 60)
    request = EvaluateRequest(WireContext.of(ctx), "who?", PASSAGES)
    pretend_to_be_a_replica()
    expected = await Evaluator(settings).evaluate(request)
    found = await kind(settings).evaluate(request)
    assert found.scores == pytest.approx(expected.scores, abs=1e-6)
    assert found.scores[2] is None and len({*found.scores}) == 4
    assert (found.thresholds, found.truncated) == (expected.thresholds, expected.truncated)


@pytest.mark.parametrize("variant", VARIANTS, ids=lambda variant: str(variant.name))
def test_every_variant_is_a_valid_config(variant: object) -> None:
    assert isinstance(variant, type(WHOLE))
    base = without_compact(read_config(ROOT / "configs/embedded.yaml"))
    config = variant.config(base)
    application = config["applications"][0]
    AppSettings.model_validate(application["args"])
    placed = {deployment["name"] for deployment in application["deployments"]}
    assert variant.evaluator.__name__ in placed
    assert "Evaluator" in {one["name"] for one in base["applications"][0]["deployments"]}, "a copy"
    changed = (config, variant.env) != (WHOLE.config(base), WHOLE.env)
    assert changed is (variant is not WHOLE)


def test_repeated_questions_are_those_that_a_cache_helps() -> None:
    fresh, repeated = (_loaded(kind, 24) for kind in (Questions.FRESH, Questions.REPEATED))
    assert len({one.question for one in fresh}) == 24
    assert len({one.question for one in repeated}) < 18
    assert {one.question for one in repeated} <= {one.question for one in fresh}
