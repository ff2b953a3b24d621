import json
import logging

import pytest
from starlette.types import Message, Receive, Scope, Send

from crag_core import errors
from crag_core.errors import CragError
from crag_core.types import PipelineName
from deployments.api.errors import STATUS_OF, AnswerBugs, status_of
from deployments.api.observing import Observation
from tests.core.test_errors import ERRORS
from tests.deployments.application import QUESTION, Application, refusal
from tests.fakes import FakePipeline

CONTRACT = {
    "internal": 500,
    "invalid_question": 422,
    "invalid_timeout": 422,
    "prompt_too_long": 400,
    "pipeline_not_configured": 404,
    "quality_below_minimum": 422,
    "overloaded": 429,
    "not_ready": 503,
    "stage_unavailable": 503,
    "stage_timed_out": 504,
    "stage_failed": 500,
    "retrieval_failed": 500,
    "evaluation_failed": 500,
    "search_failed": 502,
    "search_budget_spent": 429,
    "search_throttled": 503,
    "search_circuit_open": 503,
    "search_timed_out": 504,
    "generation_failed": 500,
    "malformed_completion": 502,
    "explanations_not_configured": 404,
    "answer_not_found": 404,
}


def failing(error: Exception) -> Application:
    return Application(pipelines={PipelineName.CRAG: FakePipeline(error=error)})


@pytest.mark.parametrize("kind", ERRORS, ids=lambda kind: kind.__name__)
async def test_every_error_has_the_contracts_status_and_a_clean_body(kind: type[CragError]) -> None:
    class Doubled(RuntimeError, kind):  # type: ignore[valid-type, misc]  # the kind is a variable
        """As Ray doubles the error of another process: our class, with its traceback as the text."""

        def __init__(self, cause: CragError) -> None:
            self.cause = cause

        def __getattr__(self, name: str) -> object:
            return getattr(self.cause, name)

        def __str__(self) -> str:
            return "Traceback of another process: password"

    response = await failing(Doubled(kind("what to do"))).answer()
    assert refusal(response) == (CONTRACT[kind.code], kind.code, None)
    assert response.json()["error"]["message"] == "what to do"
    assert "password" not in response.text
    assert ("retry-after" in response.headers) == (response.status_code in (429, 503))


@pytest.mark.parametrize("kind", CragError.__subclasses__(), ids=lambda kind: kind.__name__)
def test_every_child_of_the_root_has_a_row_of_its_own(kind: type[CragError]) -> None:
    if kind.__module__ == CragError.__module__:
        assert kind in STATUS_OF


def test_a_new_error_has_its_nearest_ancestors_status() -> None:
    class PlanMalformed(errors.MalformedCompletion):
        code = "plan_malformed"

    assert status_of(PlanMalformed) == status_of(errors.MalformedCompletion) == 502


async def test_a_bug_is_answered_as_json_and_logged_with_its_traceback(
    caplog: pytest.LogCaptureFixture,
) -> None:
    application = failing(ZeroDivisionError("secret words"))
    response = await application.answer()
    assert refusal(response) == (500, "internal", None)
    assert "secret words" not in response.text
    assert application.observer.outcomes == ["internal"]
    (record,) = [record for record in caplog.records if record.levelno == logging.ERROR]
    assert record.exc_info is not None
    assert isinstance(record.exc_info[1], ZeroDivisionError)
    assert response.headers["x-request-id"] in record.getMessage()


async def test_a_bug_after_the_response_has_begun_cuts_it_off() -> None:
    sent: list[Message] = []

    async def broken(scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        raise ZeroDivisionError

    async def receive() -> Message:
        return {"type": "http.request"}

    async def send(message: Message) -> None:
        sent.append(message)

    state = {"observation": Observation(), "request_id": "r"}
    with pytest.raises(ZeroDivisionError):
        await AnswerBugs(broken)({"type": "http", "path": "/", "state": state}, receive, send)
    assert [message["type"] for message in sent] == ["http.response.start"]


async def test_the_clients_mistakes_are_not_logged_as_errors(caplog: pytest.LogCaptureFixture) -> None:
    await Application().answer(question="")
    await failing(errors.Overloaded("wait")).answer()
    assert [record for record in caplog.records if record.levelno >= logging.ERROR] == []


@pytest.mark.parametrize(
    ("method", "path", "expected"),
    [
        ("GET", "/v2/answer", (404, "not_found", None)),
        ("POST", "/v1/answer/", (404, "not_found", None)),
        ("GET", "/v1/answer", (405, "method_not_allowed", None)),
        ("DELETE", "/v1/chat/completions", (405, "method_not_allowed", None)),
        ("POST", "/livez", (405, "method_not_allowed", None)),
    ],
)
async def test_unknown_routes_and_methods_are_json_too(
    method: str, path: str, expected: tuple[int, str, str | None]
) -> None:
    async with Application().client() as client:
        response = await client.request(method, path)
    assert refusal(response) == expected
    assert ("allow" in response.headers) == (response.status_code == 405)


@pytest.mark.parametrize(
    "body",
    [
        b"{",
        b'{"question": "a",}',
        b"question=a",
        b'{"question": "\xff"}',
        b"[" * 100_000,
        b'{"a": ' * 50_000,
        b"1" * 5_000,
        b'{"question": "' + b"9" * 10 + b'", "timeout_s": ' + b"9" * 5_000 + b"}",
    ],
    ids=["open", "comma", "form", "latin-1", "nested", "nested-objects", "long", "long-number"],
)
async def test_a_body_that_is_not_json_is_malformed(body: bytes) -> None:
    application = Application()
    response = await application.answer(body)
    assert refusal(response) == (400, "malformed_json", None)
    assert application.observer.outcomes == ["malformed_json"]


@pytest.mark.parametrize("body", [b"[]", b'"text"', b"null", b"5", b" "])
async def test_json_that_is_no_object_is_refused(body: bytes) -> None:
    status, code, _ = refusal(await Application().post("/v1/answer", body))
    assert (status, code) in {(422, "invalid_request"), (400, "malformed_json")}


async def test_field_names_that_cannot_be_encoded_are_refused_as_well() -> None:
    for body in (b'{"\\ud800": 1}', b'{"options": {"\\udc00": 1}}', b'{"documents": [{"\\ud800": 1}]}'):
        response = await Application().answer(body)
        assert response.status_code in (400, 422), response.text
        assert refusal(response)[1] in ("unsupported_field", "invalid_request")


@pytest.mark.parametrize(
    ("fields", "limit"),
    [
        (dict.fromkeys(map(str, range(100_000)), 1), 64),
        ({"options": dict.fromkeys(map(str, range(100_000)), 1)}, 64),
        ({"options": {"thresholds": dict.fromkeys(map(str, range(100_000)), 1)}}, 64),
        ({"documents": [5] * 1_000_000}, 100),
        ({"choices": [5] * 1_000_000}, 10),
    ],
    ids=["fields", "options", "thresholds", "documents", "choices"],
)
async def test_a_flood_of_mistakes_is_refused_before_each_is_looked_at(
    fields: dict[str, object], limit: int
) -> None:
    response = await Application().answer(json.dumps({"question": QUESTION, **fields}).encode())
    assert response.status_code == 422
    assert f"but the limit is {limit}" in response.json()["error"]["message"]


async def test_the_openapi_document_models_every_error() -> None:
    async with Application().client() as client:
        document = (await client.get("/openapi.json")).json()
    for path in ("/v1/answer", "/v1/chat/completions", "/v1/rerank"):
        operation = document["paths"][path]["post"]
        assert operation["summary"] and operation["description"]
        assert {"200", "400", "413", "415", "422", "429", "500", "503", "504"} <= set(
            operation["responses"]
        )
        for status, response in operation["responses"].items():
            if status != "200":
                schema = response["content"]["application/json"]["schema"]
                assert schema == {"$ref": "#/components/schemas/ErrorBody"}
    assert "HTTPValidationError" not in document["components"]["schemas"]


@pytest.mark.parametrize(
    ("path", "statuses", "sent"),
    [
        ("/v1/models", {"401", "403", "500"}, "application/json"),
        ("/v1/answers/{answer_id}", {"401", "403", "404", "422", "500"}, "application/json"),
        ("/metrics", {"401", "403", "500"}, "text/plain"),
        ("/livez", set(), "application/json"),
    ],
)
async def test_a_route_without_a_body_documents_what_can_occur_and_no_more(
    path: str, statuses: set[str], sent: str
) -> None:
    async with Application().client() as client:
        document = (await client.get("/openapi.json")).json()
    responses = document["paths"][path]["get"]["responses"]
    success = responses.pop("200")
    assert (set(responses), set(success["content"])) == (statuses, {sent})
    for response in responses.values():
        schema = response["content"]["application/json"]["schema"]
        assert schema == {"$ref": "#/components/schemas/ErrorBody"}
