"""The application in one process: the wiring of Ray Serve's, its HTTP layer, and no cluster."""

from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import pytest
import ray

from benchmarks.overhead.instant_app import LEAVES
from deployments.app import wired
from deployments.in_process import InProcess, without_access
from deployments.local import app_settings, load_config

ROOT = Path(__file__).parents[2]


@pytest.fixture
async def client() -> AsyncIterator[httpx.AsyncClient]:
    settings = app_settings(load_config(ROOT / "configs" / "embedded.yaml"))
    hosting = InProcess()
    ingress = wired(without_access(settings.model_copy(update={"compact": None})), LEAVES, hosting)
    await hosting.started()
    transport = httpx.ASGITransport(ingress.replica.api())
    async with httpx.AsyncClient(transport=transport, base_url="http://in-process") as opened:
        yield opened


@pytest.mark.parametrize("pipeline", ["crag", "rag", "no_retrieval"])
async def test_a_pipeline_answers_without_a_cluster(client: httpx.AsyncClient, pipeline: str) -> None:
    response = await client.post("/v1/answer", json={"question": "Who?", "pipeline": pipeline})
    assert response.status_code == 200, response.text
    answer = response.json()
    assert answer["answer"] and answer["pipeline"] == pipeline
    assert answer["action"] == ("ambiguous" if pipeline == "crag" else None)
    assert not ray.is_initialized()


async def test_errors_are_those_of_the_api(client: httpx.AsyncClient) -> None:
    response = await client.post("/v1/answer", json={"question": "Who?", "pipeline": "compact"})
    assert (response.status_code, response.json()["error"]["code"]) == (404, "pipeline_not_configured")
