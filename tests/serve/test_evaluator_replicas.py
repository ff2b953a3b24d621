"""Several evaluator replicas: a question that comes again finds its scores, and metrics tell so."""

import asyncio
import re
from collections.abc import Iterator

import pytest
import ray
from ray import serve
from ray.serve.config import RequestRouterConfig

from crag_core.types import Passage
from deployments.clients import EvaluatorClient
from deployments.evaluator import Evaluator
from deployments.local import app_settings, load_config
from deployments.observability.gather import gather_metrics
from tests.fakes import context
from tests.serve.conftest import ROOT

pytestmark = pytest.mark.serve

PASSAGES = [Passage("Paris is the capital of France."), Passage("Kale is a vegetable.")]
QUESTIONS = [f"What is the capital of country number {i}?" for i in range(24)]
"""So many that a replica without one is as likely as tossing 24 heads in a row."""
ROUNDS = 3


@pytest.fixture
def evaluator() -> Iterator[EvaluatorClient]:
    """Two replicas behind the router of the production configuration."""
    production = load_config(ROOT / "serve_config.yaml").applications[0]
    (deployment,) = (d for d in production.deployments if d.name == "Evaluator")
    router = RequestRouterConfig(**deployment.request_router_config)
    settings = app_settings(load_config(ROOT / "configs/embedded.yaml")).evaluator
    ray.init(address="local", num_cpus=2, include_dashboard=False, log_to_driver=False)
    try:
        options = {
            "num_replicas": 2,
            "request_router_config": router,
            "ray_actor_options": {"num_cpus": 0.2, "runtime_env": {"env_vars": {"HF_HUB_OFFLINE": "1"}}},
        }
        handle = serve.run(serve.deployment(**options)(Evaluator).bind(settings), route_prefix=None)
        yield EvaluatorClient(handle)
    finally:
        serve.shutdown()
        ray.shutdown()


async def test_replicas_share_their_caches_by_the_way_questions_take(evaluator: EvaluatorClient) -> None:
    rounds = [
        [(await evaluator.evaluate(context(), question, PASSAGES)).scores for question in QUESTIONS]
        for _ in range(ROUNDS)
    ]
    assert rounds[0] == rounds[1] == rounds[2]
    assert len({scores for scores in rounds[0]}) == len(QUESTIONS)
    pairs = len(QUESTIONS) * len(PASSAGES)
    scored = await eventually(r"ray_crag_evaluator_pairs_total{.*} (\S+)", pairs)
    cached = await eventually(
        r'ray_crag_evaluator_spared_pairs_total{.*why="cached".*} (\S+)', pairs * (ROUNDS - 1)
    )
    assert len(scored) == 2, "both replicas have worked"
    assert (sum(scored), sum(cached)) == (pairs, pairs * (ROUNDS - 1))


async def eventually(sample: str, total: float) -> list[float]:
    """The values of a metric's samples, once they add up; metrics take seconds to leave a replica."""
    values: list[float] = []
    for _ in range(60):
        values = [float(value) for value in re.findall(sample, await gather_metrics())]
        if sum(values) == total:
            break
        await asyncio.sleep(0.5)
    return values
