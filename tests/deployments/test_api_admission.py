"""Admission at the API: nothing is started for who is refused, and nothing stays behind of others."""

import asyncio
import json
from collections import Counter

import pytest
from pydantic import SecretStr

from crag_core.errors import EvaluationFailed
from crag_core.settings import CragSettings
from deployments.admission.admission import Admission
from deployments.api.access import Access
from deployments.api.keys import Keys, sha256_of
from deployments.settings import AdmissionSettings
from tests.admission.crowd import ANSWER, others
from tests.deployments.application import QUESTION, Application, refusal
from tests.fakes import FakeAdmissionObserver, FakeEvaluator, FakeGenerator


def limited(**settings: object) -> tuple[Application, Admission]:
    observer = FakeAdmissionObserver()
    admission = Admission.of(AdmissionSettings.model_validate(settings), CragSettings(), observer)
    return Application(admission=admission, turned_away=observer), admission


def crowded() -> tuple[Application, Admission]:
    """A cluster in which two requests are being answered, and no more may be."""
    application, admission = limited(max_in_flight=2)
    admission.gate.heard(others(2, ANSWER))
    return application, admission


@pytest.mark.parametrize("stream", [False, True])
async def test_in_an_overload_nothing_is_started(stream: bool) -> None:
    application, _ = crowded()
    for response in (
        await application.answer(),
        await application.chat(stream=stream),
        await application.post("/v1/rerank", {"query": QUESTION, "documents": ["a"]}),
        await application.post("/v1/search", {"question": QUESTION}),
    ):
        assert refusal(response) == (429, "overloaded", None)
        assert int(response.headers["retry-after"]) >= 1
    assert application.retriever.queries == []
    assert application.evaluator.calls == []
    assert application.searcher.sought == []
    assert application.generator.prompts == []
    assert application.observer.outcomes == ["overloaded"] * 2
    assert len(application.turned_away.refusals) == 4


async def test_when_there_is_room_again_the_next_request_is_answered() -> None:
    application, admission = crowded()
    assert (await application.answer()).status_code == 429
    admission.gate.heard(others(0, ANSWER))
    assert (await application.answer()).status_code == 200


@pytest.mark.parametrize("stream", [False, True])
async def test_an_answer_holds_its_place_until_it_has_ended(stream: bool) -> None:
    application, admission = limited()
    for _ in range(2):
        assert (await application.chat(stream=stream)).status_code == 200
        assert (await application.answer()).status_code == 200
        assert (await application.answer(pipeline="rag")).status_code == 200
    assert (await application.post("/v1/rerank", {"query": "q", "documents": ["a"]})).status_code == 200
    assert (await application.post("/v1/search", {"question": QUESTION})).status_code == 200
    assert admission.gate.load().requests == 0


async def test_what_fails_or_is_late_leaves_nothing_behind() -> None:
    application, admission = limited()
    application.evaluator = FakeEvaluator(error=EvaluationFailed("no scores"))
    assert (await application.answer()).status_code == 500
    application.evaluator = FakeEvaluator(hang=True)
    assert (await application.answer(timeout_s=0.05)).status_code == 504
    assert (await application.answer({"question": ""})).status_code == 422
    assert admission.gate.load().requests == 0


async def test_a_thousand_hang_ups_leave_nothing_behind() -> None:
    application, admission = limited()
    application.generator = FakeGenerator(hang=True)
    async with application.client() as client:
        for _ in range(20):
            body = {"question": QUESTION}
            hanging = [asyncio.create_task(client.post("/v1/answer", json=body)) for _ in range(50)]
            await application.generator.waiting.wait()  # some are generated, some on their way
            for task in hanging:
                task.cancel()
            await asyncio.gather(*hanging, return_exceptions=True)
            application.generator.waiting.clear()
        assert admission.gate.load().requests == 0
        ended = Counter(application.observer.outcomes)
        # on a slow machine the gate may see that clients leave before they are answered, and shut
        assert ended["client_gone"] + ended["overloaded"] == ended.total() == 1000
        assert ended["client_gone"] >= 50
        application.generator.hang = False
        assert (await client.post("/v1/answer", json=body)).status_code == 200


async def test_an_address_that_asks_too_often_waits() -> None:
    application, _ = limited(requests_per_minute=60, burst=2)
    async with application.client() as client:
        body = {"question": QUESTION}
        replies = [await client.post("/v1/answer", json=body) for _ in range(3)]
        assert [reply.status_code for reply in replies] == [200, 200, 429]
        assert "the address" in replies[-1].json()["error"]["message"]
        assert int(replies[-1].headers["retry-after"]) >= 1
        assert application.observer.outcomes[-1] == "overloaded"
        assert (await client.get("/livez")).status_code == 200


async def test_a_key_has_its_own_bucket() -> None:
    application, _ = limited(burst=1)
    key = {"id": "reader", "sha256": sha256_of("secret"), "requests_per_minute": 1}
    application.access = Access(Keys(SecretStr(json.dumps(key))))
    body = {"question": QUESTION}
    async with application.client() as client:
        bearer = {"authorization": "Bearer secret"}
        codes = [
            (await client.post("/v1/answer", json=body, headers=bearer)).status_code for _ in range(2)
        ]
        assert codes == [200, 429]
        assert (await client.post("/v1/answer", json=body)).status_code == 200
