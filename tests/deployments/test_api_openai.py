import asyncio
import json
from typing import Any

import httpx
import httpx2
import openai
import pytest

from crag_core.errors import GenerationFailed, Overloaded
from crag_core.types import PipelineName, Turn
from deployments.settings import ApiSettings
from tests.deployments.application import QUESTION, Application, refusal
from tests.fakes import FakeEvaluator, FakeGenerator, FakePipeline, FakeRetriever

USER = {"role": "user", "content": QUESTION}


def events(response: httpx.Response) -> list[Any]:
    """The JSON of each event; the last is `[DONE]`, and nothing stands between events."""
    assert response.headers["content-type"].startswith("text/event-stream")
    *lines, end = response.text.split("\n\n")
    assert end == ""
    assert lines[-1] == "data: [DONE]"
    return [json.loads(line.removeprefix("data: ")) for line in lines[:-1]]


def without_times(details: dict[str, Any]) -> dict[str, Any]:
    stages = [stage["stage"] for stage in details["trace"]["stages"]]
    return {**details, "id": "", "trace": {**details["trace"], "stages": stages}}


async def test_the_chunks_come_in_openais_order() -> None:
    response = await Application().chat(stream=True, stream_options={"include_usage": True})
    assert response.status_code == 200
    role, *contents, finish, usage = events(response)
    assert role["choices"][0]["delta"] == {"role": "assistant", "content": ""}
    texts = [chunk["choices"][0]["delta"]["content"] for chunk in contents]
    assert texts == ["A politician", " from", " Blackburn."]
    assert all(chunk["choices"][0]["finish_reason"] is None for chunk in [role, *contents])
    assert finish["choices"] == [{"index": 0, "delta": {}, "finish_reason": "stop"}]
    assert finish["crag"]["action"] == "correct"
    assert usage["choices"] == []
    counted = usage["usage"]
    assert counted["total_tokens"] == counted["prompt_tokens"] + counted["completion_tokens"] > 3
    chunks = [role, *contents, finish, usage]
    assert len({(chunk["id"], chunk["created"], chunk["model"]) for chunk in chunks}) == 1
    assert {chunk["object"] for chunk in chunks} == {"chat.completion.chunk"}


async def test_without_include_usage_there_is_no_usage_chunk() -> None:
    assert "crag" in events(await Application().chat(stream=True))[-1]


async def test_streamed_and_not_the_answer_is_the_same_and_as_on_the_native_route() -> None:
    application = Application()
    streamed = events(await application.chat(stream=True))
    whole = (await application.chat()).json()
    native = (await application.answer()).json()
    text = "".join(
        chunk["choices"][0]["delta"].get("content", "") for chunk in streamed if chunk["choices"]
    )
    assert text == whole["choices"][0]["message"]["content"] == native.pop("answer")
    assert without_times(streamed[-1]["crag"]) == without_times(whole["crag"])
    assert without_times(whole["crag"]) == without_times(native)
    assert [observation.outcome for observation in application.observer.observations] == ["ok"] * 3


async def test_a_completion_has_openais_form() -> None:
    body = (await Application().chat()).json()
    assert body["object"] == "chat.completion"
    assert body["id"].startswith("chatcmpl-")
    assert body["model"] == "crag"
    assert body["choices"][0]["finish_reason"] == "stop"
    assert body["choices"][0]["message"]["role"] == "assistant"
    assert set(body["usage"]) == {"prompt_tokens", "completion_tokens", "total_tokens"}


async def test_abstaining_is_streamed_like_any_answer() -> None:
    application = Application(retriever=FakeRetriever())
    *_, content, finish = events(await application.chat(stream=True))
    assert content["choices"][0]["delta"]["content"].startswith("There is not enough evidence")
    assert finish["choices"][0]["finish_reason"] == "stop"
    assert finish["crag"]["degraded"][0]["reason"] == "not_enough_evidence"


async def test_an_answer_without_text_still_has_all_its_chunks() -> None:
    role, finish = events(await Application(generator=FakeGenerator(())).chat(stream=True))
    assert role["choices"][0]["delta"]["role"] == "assistant"
    assert finish["choices"][0]["finish_reason"] == "stop"


async def test_an_error_before_the_first_piece_keeps_its_status() -> None:
    generator = FakeGenerator((), error=GenerationFailed("engine died"))
    application = Application(generator=generator)
    response = await application.chat(stream=True)
    assert refusal(response) == (500, "generation_failed", None)
    assert response.json()["error"]["type"] == "server_error"
    assert application.observer.outcomes == ["generation_failed"]


@pytest.mark.parametrize(
    ("error", "code"),
    [(GenerationFailed("engine died"), "generation_failed"), (KeyError("secret"), "internal")],
)
async def test_a_failure_in_mid_stream_is_an_event_and_no_finish(error: Exception, code: str) -> None:
    application = Application(generator=FakeGenerator(("A pol",), error=error))
    response = await application.chat(stream=True)
    _, content, failure = events(response)
    assert content["choices"][0]["delta"]["content"] == "A pol"
    assert failure["error"]["code"] == code
    assert failure["error"]["type"] == "server_error"
    assert failure["error"]["request_id"] == response.headers["x-request-id"]
    assert '"finish_reason": "stop"' not in response.text
    assert "secret" not in response.text
    assert application.observer.outcomes == [code]


async def test_a_stream_past_its_deadline_ends_with_an_error() -> None:
    application = Application(generator=FakeGenerator(("A pol",), hang=True))
    response = await application.chat(stream=True, crag={"timeout_s": 0.1})
    assert events(response)[-1]["error"]["code"] == "stage_timed_out"
    assert application.generator.closed == 1


async def test_hanging_up_in_mid_stream_stops_the_work_and_is_observed() -> None:
    application = Application(generator=FakeGenerator(("A pol",), hang=True))
    asking = asyncio.create_task(application.chat(stream=True))
    await application.generator.waiting.wait()
    asking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asking
    assert application.generator.closed == 1
    assert application.observer.outcomes == ["client_gone"]


async def test_hanging_up_while_a_chunk_is_sent_stops_the_work() -> None:
    application = Application()
    sending = asyncio.Event()

    async def send(message: Any) -> None:
        if message.get("body"):
            sending.set()
            await asyncio.Event().wait()

    body = json.dumps({"model": "crag", "stream": True, "messages": [USER]}).encode()
    requests = [{"type": "http.request", "body": body, "more_body": False}]

    async def receive() -> Any:
        if requests:
            return requests.pop()
        await sending.wait()
        return {"type": "http.disconnect"}

    scope = {
        "type": "http",
        "method": "POST",
        "path": "/v1/chat/completions",
        "headers": [(b"content-type", b"application/json")],
        "query_string": b"",
    }
    await application.api()(scope, receive, send)
    assert application.generator.closed == 1
    assert application.observer.outcomes == ["client_gone"]


async def test_the_conversation_reaches_the_prompt_and_only_the_question_is_searched() -> None:
    application = Application()
    messages: list[dict[str, Any]] = [
        {"role": "system", "content": "Answer like a pirate."},
        {"role": "user", "content": "Hello!"},
        {"role": "assistant", "content": "Ahoy!", "refusal": None, "tool_calls": None},
        {"role": "developer", "content": [{"type": "text", "text": "Be brief."}]},
        {
            "role": "user",
            "content": [
                {"type": "text", "text": "About Henry Feilden:"},
                {"type": "text", "text": "what did he do? "},
            ],
        },
    ]
    response = await application.chat(messages=messages)
    assert response.status_code == 200, response.text
    assert application.retriever.queries == ["About Henry Feilden:\nwhat did he do?"]
    system, hello, ahoy, last = application.generator.prompts[0].messages
    assert system.content.startswith("Answer like a pirate.\n\nBe brief.\n\n")
    assert (hello.content, ahoy.role) == ("Hello!", "assistant")
    assert last.content.endswith("Question: About Henry Feilden:\nwhat did he do?")


async def test_sampling_fields_are_honoured() -> None:
    application = Application()
    await application.chat(
        temperature=0.7, top_p=0.9, max_completion_tokens=17, stop="\n", seed=3, user="u", n=1
    )
    sampling = application.generator.samplings[0]
    assert (sampling.temperature, sampling.top_p, sampling.max_new_tokens) == (0.7, 0.9, 17)
    assert (sampling.stop, sampling.seed) == (("\n",), 3)


async def test_the_crag_object_takes_what_the_native_route_takes() -> None:
    application = Application(FakeEvaluator(default=0.9))
    crag = {
        "documents": ["Henry Feilden baked bread in Blackburn."],
        "options": {"max_new_tokens": 9},
        "trace": False,
        "pipeline": "crag",
    }
    body = (await application.chat(crag=crag, max_tokens=9)).json()
    assert body["crag"]["citations"][0]["document_id"] == "document-0"
    assert body["crag"]["trace"] is None
    assert application.generator.samplings[0].max_new_tokens == 9


async def test_null_is_absent_here_too() -> None:
    fields = ["temperature", "top_p", "max_tokens", "stop", "seed", "n", "tools", "stream", "crag"]
    nulls = dict.fromkeys([*fields, "stream_options", "response_format", "user", "logprobs"])
    assert (await Application().chat(**nulls)).status_code == 200


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"n": 2}, "n"),
        ({"tools": []}, "tools"),
        ({"functions": []}, "functions"),
        ({"tool_choice": "auto"}, "tool_choice"),
        ({"response_format": {"type": "json_object"}}, "response_format"),
        ({"logprobs": True}, "logprobs"),
        ({"logit_bias": {"1": 1}}, "logit_bias"),
        ({"presence_penalty": 0}, "presence_penalty"),
        ({"typo": 1}, "typo"),
        ({"crag": {"question": "q"}}, "crag.question"),
        ({"crag": {"options": {"typo": 1}}}, "crag.options.typo"),
        (
            {"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {}}]}]},
            "messages.0.content.0.type",
        ),
        (
            {"messages": [{"role": "user", "content": [{"type": "input_audio"}]}]},
            "messages.0.content.0.type",
        ),
        ({"messages": [{"role": "tool", "content": "x", "tool_call_id": "1"}]}, "messages.0.role"),
        ({"messages": [{**USER, "name": "ann"}]}, "messages.0.name"),
    ],
)
async def test_what_is_not_supported_is_refused_by_name(fields: dict[str, Any], field: str) -> None:
    response = await Application().chat(**fields)
    assert refusal(response) == (400, "unsupported_field", field)
    error = response.json()["error"]
    assert (error["type"], error["param"]) == ("invalid_request_error", field)
    assert f"`{field}`" in error["message"]


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"model": "gpt-4o"}, (404, "pipeline_not_configured", None)),
        ({"model": "compact"}, (404, "pipeline_not_configured", None)),
        ({"model": None}, (422, "invalid_request", "model")),
        ({"messages": []}, (422, "invalid_question", "messages")),
        ({"messages": [{"role": "user", "content": " "}]}, (422, "invalid_question", "messages")),
        (
            {"messages": [{"role": "user", "content": "\ud800"}]},
            (422, "invalid_question", "messages.0.content.0.text"),
        ),
        (
            {"messages": [USER, {"role": "assistant", "content": "He was a"}]},
            (422, "invalid_question", "messages"),
        ),
        (
            {"messages": [{"role": "system", "content": "s"}]},
            (422, "invalid_question", "messages"),
        ),
        (
            {"messages": [{"role": "user", "content": "x" * 4_001}]},
            (422, "invalid_question", "messages"),
        ),
        ({"messages": [USER] * 257}, (422, "invalid_question", "messages")),
        (
            {"messages": [{"role": "user", "content": "x" * 60_000}, USER] * 2},
            (422, "invalid_question", "messages"),
        ),
        ({"temperature": 3}, (422, "invalid_request", "temperature")),
        ({"top_p": 0}, (422, "invalid_request", "top_p")),
        ({"seed": 2**63}, (422, "invalid_request", "seed")),
        ({"stop": ["a"] * 5}, (422, "invalid_request", "stop")),
        ({"stop": ""}, (422, "invalid_request", "stop.0")),
        ({"max_tokens": 1_025}, (422, "invalid_request", "max_tokens")),
        (
            {"max_tokens": 5, "max_completion_tokens": 6},
            (422, "invalid_request", "max_tokens"),
        ),
        (
            {"temperature": 0, "crag": {"options": {"temperature": 1}}},
            (422, "invalid_request", "temperature"),
        ),
        ({"stream_options": {"include_usage": True}}, (422, "invalid_request", "stream_options")),
        ({"crag": {"pipeline": "rag"}}, (422, "invalid_request", "crag.pipeline")),
        ({"crag": {"timeout_s": 0}}, (422, "invalid_timeout", "crag.timeout_s")),
        ({"crag": {"task": "choice"}}, (422, "invalid_question", "crag.choices")),
        ({"crag": {"documents": ["x" * 100_001]}}, (422, "invalid_request", "crag.documents.0.text")),
    ],
)
async def test_mistakes_are_named(fields: dict[str, Any], expected: tuple[int, str, str | None]) -> None:
    body = {"model": "crag", "messages": [USER], **fields}
    response = await Application().post("/v1/chat/completions", json.dumps(body).encode())
    assert refusal(response) == expected
    assert response.json()["error"]["param"] == expected[2]


async def test_the_models_are_the_pipelines_of_this_application() -> None:
    async with Application().client() as client:
        body = (await client.get("/v1/models")).json()
    assert body["object"] == "list"
    assert [model["id"] for model in body["data"]] == ["crag", "rag", "no_retrieval"]


def official_client(application: Application) -> openai.AsyncOpenAI:
    return openai.AsyncOpenAI(
        api_key="none",
        base_url="http://crag.example/v1",
        http_client=httpx2.AsyncClient(transport=httpx2.ASGITransport(application.api())),
        max_retries=0,
    )


async def test_the_official_client_reads_a_completion() -> None:
    async with official_client(Application()) as client:
        completion = await client.chat.completions.create(
            model="crag",
            messages=[{"role": "user", "content": QUESTION}],
            extra_body={"crag": {"documents": ["Henry Feilden was a politician."]}},
        )
        assert (await client.models.list()).data[0].id == "crag"
    assert completion.choices[0].message.content
    assert completion.model_extra is not None
    assert completion.model_extra["crag"]["pipeline"] == "crag"


async def test_the_official_client_reads_a_stream() -> None:
    async with official_client(Application()) as client:
        stream = await client.chat.completions.create(
            model="crag",
            messages=[{"role": "user", "content": QUESTION}],
            stream=True,
            stream_options={"include_usage": True},
        )
        chunks = [chunk async for chunk in stream]
    texts = [chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices]
    assert "".join(texts) == "A politician from Blackburn."
    assert chunks[-2].choices[0].finish_reason == "stop"
    assert chunks[-1].usage is not None
    assert chunks[-1].usage.total_tokens > 0


async def test_the_official_client_continues_a_conversation() -> None:
    application = Application()
    async with official_client(application) as client:
        first = await client.chat.completions.create(
            model="crag", messages=[{"role": "user", "content": QUESTION}]
        )
        said: Any = first.choices[0].message
        await client.chat.completions.create(
            model="crag",
            messages=[
                {"role": "user", "content": QUESTION},
                said,
                {"role": "user", "content": "And where did Feilden live?"},
            ],
        )
    asked = application.generator.prompts[-1].messages
    assert [message.role for message in asked] == ["system", "user", "assistant", "user"]


async def test_the_official_client_raises_its_own_errors() -> None:
    busy = FakePipeline(error=Overloaded("too many requests wait"))
    application = Application(pipelines={PipelineName.CRAG: busy})
    async with official_client(application) as client:
        with pytest.raises(openai.RateLimitError) as limited:
            await client.chat.completions.create(
                model="crag", messages=[{"role": "user", "content": QUESTION}]
            )
        with pytest.raises(openai.BadRequestError) as refused:
            await client.chat.completions.create(
                model="crag", messages=[{"role": "user", "content": QUESTION}], n=2
            )
    assert limited.value.code == "overloaded"
    assert limited.value.response.headers["retry-after"] == "1"
    assert (refused.value.code, refused.value.param) == ("unsupported_field", "n")


async def test_the_official_client_is_told_of_a_failure_in_mid_stream() -> None:
    generator = FakeGenerator(("A pol",), error=GenerationFailed("engine died"))
    async with official_client(Application(generator=generator)) as client:
        stream = await client.chat.completions.create(
            model="crag", messages=[{"role": "user", "content": QUESTION}], stream=True
        )
        with pytest.raises(openai.APIError, match="engine died"):
            _ = [chunk async for chunk in stream]


async def test_history_is_what_stands_before_the_question() -> None:
    pipeline = FakePipeline(error=GenerationFailed("enough seen"))
    application = Application(
        pipelines={PipelineName.CRAG: pipeline}, settings=ApiSettings(default_timeout_s=5)
    )
    await application.chat(messages=[USER, {"role": "assistant", "content": "A cook."}, USER])
    question = pipeline.asks[0].question
    assert question.history == (Turn("user", QUESTION), Turn("assistant", "A cook."))
    assert question.text == QUESTION
