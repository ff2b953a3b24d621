"""A deployment at zero, and access, on a real cluster: the engine is timed, the rest is what it is."""

import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from benchmarks.served_application import read_config, served
from benchmarks.timed_config import with_timed_engine
from deployments.api.keys import new_secret, sha256_of
from deployments.app import API_KEYS

pytestmark = pytest.mark.serve

ROOT = Path(__file__).parents[2]
SECRET = new_secret()
KEYS = json.dumps({"id": "tests", "sha256": sha256_of(SECRET), "permissions": ["ask", "operate"]})
BODY = {"question": "Who wrote Nineteen Eighty-Four?", "pipeline": "no_retrieval", "timeout_s": 100}


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    config = with_timed_engine(read_config(ROOT / "configs/embedded.yaml"))
    (application,) = config["applications"]
    application["args"]["api"] = {"access": {"required": True}}
    (generator,) = [each for each in application["deployments"] if each["name"] == "Generator"]
    del generator["num_replicas"]
    generator["autoscaling_config"] = {
        "min_replicas": 0,
        "initial_replicas": 1,
        "max_replicas": 1,
        "look_back_period_s": 11,
        "downscale_delay_s": 1,
        "downscale_to_zero_delay_s": 5,
        "policy": {"policy_function": "deployments.scaling:GeneratorPolicy"},
    }
    with served(config, {API_KEYS: KEYS}) as server:
        yield server.url


@pytest.fixture
def client(url: str) -> Iterator[httpx.Client]:
    headers = {"Authorization": f"Bearer {SECRET}"}
    with httpx.Client(base_url=url, timeout=120, headers=headers) as opened:
        yield opened


def until(holds: Callable[[], bool], within_s: float = 240.0) -> None:
    give_up_s = time.monotonic() + within_s
    while not holds():
        assert time.monotonic() < give_up_s
        time.sleep(0.5)


def generator_state(client: httpx.Client) -> dict[str, Any]:
    state: dict[str, Any] = client.get("/readyz").json()["stages"]["generate"]
    return state


def test_without_its_key_a_server_answers_nobody(url: str, client: httpx.Client) -> None:
    assert httpx.post(f"{url}/v1/answer", json=BODY).status_code == 401
    assert httpx.get(f"{url}/metrics").status_code == 401
    assert httpx.get(f"{url}/livez").status_code == 200
    assert client.get("/v1/models").status_code == 200


def test_a_generator_goes_to_zero_is_ready_there_and_comes_back_when_asked(client: httpx.Client) -> None:
    assert client.post("/v1/answer", json=BODY).status_code == 200
    until(lambda: generator_state(client)["state"].startswith("at zero"))
    assert client.get("/readyz").status_code == 200
    statuses = []

    def is_answered() -> bool:
        response = client.post("/v1/answer", json=BODY)
        statuses.append(response.status_code)
        assert response.status_code in (200, 503), response.text
        if response.status_code == 503:
            assert int(response.headers["retry-after"]) > 0
        return response.status_code == 200

    until(is_answered)
    until(lambda: generator_state(client)["state"] == "ready")
    assert statuses.count(200) == 1
