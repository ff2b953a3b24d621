import asyncio
import gzip
import json
from collections.abc import AsyncIterator

import pytest

from deployments.api.health import StageState
from deployments.settings import ApiSettings
from tests.deployments.application import QUESTION, Application, FakeReadiness, refusal

SMALL = ApiSettings(max_body_bytes=1_000)
BODY = json.dumps({"question": QUESTION}).encode()


async def test_a_body_over_the_limit_is_refused_and_the_limit_named() -> None:
    application = Application(settings=SMALL)
    response = await application.answer(b" " * 1_001)
    assert refusal(response) == (413, "body_too_large", None)
    assert "1000" in response.json()["error"]["message"]
    assert application.observer.outcomes == ["body_too_large"]


async def test_a_body_at_the_limit_is_read() -> None:
    response = await Application(settings=SMALL).answer(BODY.ljust(1_000))
    assert response.status_code == 200


@pytest.mark.parametrize("announced", [{}, {"content-length": "9000000"}])
async def test_the_rest_of_a_longer_body_is_discarded_but_not_without_end(
    announced: dict[str, str],
) -> None:
    sent = 0

    async def chunks() -> AsyncIterator[bytes]:
        nonlocal sent
        for _ in range(1_000):
            sent += 1
            yield b" " * 100

    headers = {"content-type": "application/json", **announced}
    async with Application(settings=SMALL).client() as client:
        response = await client.post("/v1/answer", content=chunks(), headers=headers)
    assert refusal(response) == (413, "body_too_large", None)
    assert 40 <= sent <= 55


async def test_a_body_that_does_not_arrive_is_refused_and_its_connection_closed() -> None:
    async def drops() -> AsyncIterator[bytes]:
        while True:
            yield b" "
            await asyncio.sleep(0.01)

    application = Application(settings=ApiSettings(max_body_s=0.1))
    async with application.client() as client:
        response = await client.post(
            "/v1/answer", content=drops(), headers={"content-type": "application/json"}
        )
    assert refusal(response) == (408, "body_too_slow", None)
    assert response.headers["connection"] == "close"
    assert application.observer.outcomes == ["body_too_slow"]


async def test_the_time_for_a_body_does_not_limit_its_answer() -> None:
    application = Application(settings=ApiSettings(max_body_s=0.05))
    application.retriever.delay_s = 0.2
    assert (await application.answer()).status_code == 200


@pytest.mark.parametrize("encoding", ["gzip", "deflate, gzip", "br", "GZIP"])
async def test_a_compressed_body_is_refused_unread(encoding: str) -> None:
    bomb = gzip.compress(b" " * 10_000_000)
    response = await Application().post("/v1/answer", bomb, content_encoding=encoding)
    assert refusal(response) == (415, "unsupported_media_type", None)


@pytest.mark.parametrize(
    "content_type",
    ["", "text/plain", "application/x-www-form-urlencoded", "multipart/form-data", "json"],
)
async def test_another_content_type_than_json_is_refused(content_type: str) -> None:
    response = await Application().post("/v1/answer", BODY, content_type=content_type)
    assert refusal(response) == (415, "unsupported_media_type", None)


@pytest.mark.parametrize(
    "content_type",
    ["application/json", "application/json; charset=utf-8", "APPLICATION/JSON", "application/a+json"],
)
async def test_any_json_content_type_is_taken(content_type: str) -> None:
    response = await Application().post("/v1/answer", BODY, content_type=content_type)
    assert response.status_code == 200, response.text


@pytest.mark.parametrize("given", ["a", "Req_1.2-3", "x" * 64])
async def test_a_sane_request_id_is_kept(given: str) -> None:
    response = await Application().post("/v1/answer", BODY, x_request_id=given)
    assert response.headers["x-request-id"] == given


@pytest.mark.parametrize("given", ["", "x" * 65, "a b", "a\tb", "<script>", "a,b"])
async def test_another_request_id_is_replaced(given: str) -> None:
    response = await Application().post("/v1/answer", BODY, x_request_id=given)
    assert len(response.headers["x-request-id"]) == 32


@pytest.mark.parametrize("path", ["/", "/livez", "/nowhere", "/v1/models", "/docs"])
async def test_every_response_has_an_id_and_is_not_sniffed_nor_shared(path: str) -> None:
    async with Application().client() as client:
        response = await client.get(path, headers={"origin": "https://elsewhere.example"})
    assert len(response.headers["x-request-id"]) == 32
    assert response.headers["x-content-type-options"] == "nosniff"
    assert "access-control-allow-origin" not in response.headers


async def test_the_server_lives_whatever_its_stages_do() -> None:
    down = FakeReadiness({"evaluate": StageState("starting", ready=False)})
    async with Application(readiness=down).client() as client:
        assert (await client.get("/livez")).json() == {"status": "ok"}


@pytest.mark.parametrize(("ready", "status"), [(True, 200), (False, 503)])
async def test_readiness_shows_every_stage(ready: bool, status: int) -> None:
    states = {
        "retrieve": StageState("answered", ready=True),
        "evaluate": StageState("answered" if ready else "starting", ready=ready),
    }
    async with Application(readiness=FakeReadiness(states)).client() as client:
        response = await client.get("/readyz")
    assert response.status_code == status
    assert response.json() == {
        "ready": ready,
        "stages": {name: {"state": stage.state, "ready": stage.ready} for name, stage in states.items()},
    }


async def test_metrics_are_prometheus_text() -> None:
    async with Application().client() as client:
        response = await client.get("/metrics")
    assert response.text == "crag_answers_total 1.0\n"
    assert response.headers["content-type"].startswith("text/plain; version=0.0.4")


async def test_the_root_names_the_routes_and_they_exist() -> None:
    async with Application().client() as client:
        body = (await client.get("/")).json()
        assert body["name"] == "crag-serve"
        assert body["pipelines"] == ["crag", "rag", "no_retrieval"]
        for name in ("docs", "openapi", "models", "ready"):
            assert (await client.get(body[name])).status_code == 200
