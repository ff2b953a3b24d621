"""Debian's Prometheus over the live application under load: every panel and every rule has its data."""

import math
import subprocess
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest
import yaml

from deployments.observability.declaring import Panel, Query
from deployments.observability.generate import generated
from deployments.observability.registry import alerts, panels, recordings
from examples.demo import QUESTIONS
from tests.observability.conftest import program
from tests.serve.conftest import CRAG, ROOT, free_port

pytestmark = pytest.mark.serve

WITHIN_S = 240.0
EXPORTED_WITHIN_S = 15.0
"""Ray's agents hear of a process's metrics every 10 seconds."""
SERIES_BUDGET = 4_000
"""Of one replica of every deployment, on the application's page of metrics."""
COMPACT = "Where was the author of Dracula born?"


@pytest.fixture(scope="module")
def monitored(url: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[httpx.Client]:
    """Prometheus' HTTP API, while the application and the load generator are scraped under load."""
    folder, load_port = tmp_path_factory.mktemp("prometheus"), free_port()
    with (
        under_load(url, load_port, folder),
        prometheus(folder, urlsplit(url).netloc, f"127.0.0.1:{load_port}") as client,
    ):
        yield client


def test_every_panel_has_data_or_a_reason_to_be_empty(monitored: httpx.Client) -> None:
    wanted = [(panel, query) for panel in panels() if not panel.at_rest for query in panel.queries]
    within_time_none(wanted, lambda query: not values(monitored, query))


def test_every_query_is_understood(monitored: httpx.Client) -> None:
    """A quantile is NaN for a minute in which nothing ended: on a slow machine that may be any one."""
    asked = [(panel, query) for panel in panels() for query in panel.queries]
    within_time_none(asked, lambda query: any(map(math.isnan, values(monitored, query))))


def test_every_rule_is_evaluated(monitored: httpx.Client) -> None:
    groups = monitored.get("/api/v1/rules").raise_for_status().json()["data"]["groups"]
    rules = {rule["name"]: rule for group in groups for rule in group["rules"]}
    assert [rule for rule in rules.values() if rule["health"] != "ok"] == []
    assert {alert.name for alert in alerts()} | {it.name for it in recordings()} == rules.keys()


def test_recorded_shares_have_values(monitored: httpx.Client) -> None:
    assert [it.name for it in recordings() if not values(monitored, Query(it.name))] == []


def test_hostile_requests_leave_the_number_of_series_as_it_is(url: str, monitored: httpx.Client) -> None:
    with httpx.Client(base_url=url, timeout=60) as client:
        before = series(client)
        for _ in range(100):
            strange = uuid.uuid4().hex
            key = {"authorization": f"Bearer {strange}"}
            client.get(f"/{strange}/{strange}", headers=key)
            client.post("/v1/answer", json={"question": "Who?", "pipeline": strange}, headers=key)
            client.post("/v1/answer", json={strange: strange}, headers=key)
        time.sleep(EXPORTED_WITHIN_S)
        after = series(client)
    assert after < SERIES_BUDGET
    assert after - before < 100, "an outcome not met before may open its series, no more"


def within_time_none(asked: list[tuple[Panel, Query]], is_wrong: Callable[[Query], bool]) -> None:
    """Ask again what is wrong, until nothing is."""
    give_up = time.monotonic() + WITHIN_S
    while asked := [(panel, query) for panel, query in asked if is_wrong(query)]:
        assert time.monotonic() < give_up, [said(*it) for it in asked]
        time.sleep(3)


def series(client: httpx.Client) -> int:
    """Samples on the application's page of metrics."""
    page = client.get("/metrics").raise_for_status().text
    return len([line for line in page.splitlines() if line and not line.startswith("#")])


def values(client: httpx.Client, query: Query) -> list[float]:
    """What Prometheus answers to a query now."""
    expression = query.expression.replace("$__rate_interval", "1m")
    reply = client.get("/api/v1/query", params={"query": expression})
    assert reply.status_code == 200, (query, reply.text)
    return [float(sample["value"][1]) for sample in reply.json()["data"]["result"]]


def said(panel: Panel, query: Query) -> str:
    return f"{panel.dashboard} / {panel.title}: {query.expression}"


@contextmanager
def prometheus(folder: Path, *targets: str) -> Iterator[httpx.Client]:
    config: dict[str, Any] = yaml.safe_load((ROOT / "ops/prometheus/prometheus.yml").read_text("utf-8"))
    config["global"] = {"scrape_interval": "2s", "evaluation_interval": "2s"}
    config["scrape_configs"] = [
        {"job_name": f"target-{number}", "static_configs": [{"targets": [target]}]}
        for number, target in enumerate(targets)
    ]
    (folder / "prometheus.yml").write_text(yaml.safe_dump(config), "utf-8")
    (folder / "alerts.yml").write_text(generated()["ops/prometheus/alerts.yml"], "utf-8")
    address = f"127.0.0.1:{free_port()}"
    command = [
        program("prometheus"),
        f"--config.file={folder}/prometheus.yml",
        f"--storage.tsdb.path={folder}/data",
        f"--web.listen-address={address}",
        "--log.level=warn",
    ]
    log = folder / "prometheus.log"
    with log.open("w") as sink, httpx.Client(base_url=f"http://{address}", timeout=30) as client:
        server = subprocess.Popen(command, stdout=sink, stderr=subprocess.STDOUT)
        try:
            while not answers(client):
                assert server.poll() is None, log.read_text("utf-8")
                time.sleep(0.2)
            yield client
        finally:
            server.terminate()
            server.wait(30)


def answers(client: httpx.Client) -> bool:
    try:
        return client.get("/-/ready").is_success
    except httpx.TransportError:
        return False


@contextmanager
def under_load(url: str, metrics_port: int, folder: Path) -> Iterator[None]:
    """The load generator's steady stream, and questions for every pipeline and every action."""
    command = [CRAG, "load", "--url", url, "--rate", "1", "--stream", "--max-new-tokens", "4"]
    command += ["--duration-s", "600", "--warmup-s", "1", "--metrics-port", str(metrics_port)]
    with (folder / "load.log").open("w") as sink, ThreadPoolExecutor(1) as pool:
        generator = subprocess.Popen(command, cwd=ROOT, stdout=sink, stderr=subprocess.STDOUT)
        is_over = threading.Event()
        asking = pool.submit(ask_all_kinds, url, is_over)
        try:
            yield
        finally:
            is_over.set()
            asking.result(120)
            generator.terminate()
            generator.wait(60)


def ask_all_kinds(url: str, is_over: threading.Event) -> None:
    with httpx.Client(base_url=url, timeout=120) as client:
        while not is_over.is_set():
            few = {"max_new_tokens": 4}
            for question in QUESTIONS.values():
                client.post("/v1/answer", json={"question": question, "options": few})
            client.post("/v1/answer", json={"question": COMPACT, "pipeline": "compact"})
            client.post("/v1/answer", json={"question": ""})
