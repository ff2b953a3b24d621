"""One request against servers that behave and misbehave: every end has its outcome."""

import asyncio
import json
import time
from typing import Any

import pytest
from aiohttp import web

from benchmarks.load.client import Client
from benchmarks.load.connection import ConnectionPool
from benchmarks.load.outcomes import Outcome, Record
from benchmarks.load.settings import ClientSettings
from benchmarks.load.target import Target
from benchmarks.load.workloads import Kind, Prepared
from tests.benchmarks.servers import (
    ANSWER,
    DONE,
    RANKING,
    Handler,
    Talk,
    chunk,
    free_port,
    read_request,
    serving,
    talking,
    target,
)

ASKED = Prepared(Kind.ANSWER, b'{"question": "Who?"}')
STREAMED = Prepared(Kind.CHAT, b"{}", is_streamed=True)
OK_HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"


async def performed(where: Target, prepared: Prepared = ASKED, **settings: Any) -> Record:
    wanted = ClientSettings.model_validate({"timeout_s": 5.0, **settings})
    pool = ConnectionPool(where, 4)
    client = Client(where, wanted, pool, run="r", start_s=time.monotonic())
    try:
        return await client.perform(prepared, 0, 0.0)
    finally:
        pool.close()


def replying(status: int, body: bytes, **headers: str) -> Handler:
    async def reply(_: web.Request) -> web.Response:
        return web.Response(status=status, body=body, headers=headers)

    return reply


@pytest.mark.parametrize(
    ("status", "body", "outcome", "code"),
    [
        (200, json.dumps(ANSWER).encode(), Outcome.OK, ""),
        (200, json.dumps(ANSWER | {"degraded": [{"reason": "r"}]}).encode(), Outcome.DEGRADED, ""),
        (200, b"<html>", Outcome.BAD_ANSWER, "not_an_answer"),
        (302, b"", Outcome.BAD_ANSWER, "http_302"),
        (422, b'{"error": {"code": "invalid_question"}}', Outcome.REFUSED, "invalid_question"),
        (429, b'{"error": {"code": "overloaded"}}', Outcome.SHED, "overloaded"),
        (500, b"", Outcome.FAILED, "http_500"),
        (504, b'{"error": {"code": "stage_timed_out"}}', Outcome.TIMED_OUT, "stage_timed_out"),
    ],
)
async def test_replies_have_their_outcomes(
    status: int, body: bytes, outcome: Outcome, code: str
) -> None:
    async with serving(replying(status, body)) as where:
        record = await performed(where)
    assert (record.outcome, record.status, record.code) == (outcome, status, code)
    assert record.attempts == 1 and 0 <= (record.sent_s or -1) <= record.end_s


async def test_rankings_and_completions_are_read_too() -> None:
    choice = {"message": {"content": "a"}, "finish_reason": "stop"}
    body = json.dumps(RANKING | {"choices": [choice], "crag": ANSWER}).encode()
    async with serving(replying(200, body)) as where:
        assert (await performed(where, Prepared(Kind.RERANK, b"{}"))).outcome is Outcome.OK
        assert (await performed(where, Prepared(Kind.CHAT, b"{}"))).action == "correct"


async def test_a_request_says_what_it_is() -> None:
    seen: list[web.Request] = []
    bodies: list[bytes] = []

    async def note(request: web.Request) -> web.Response:
        seen.append(request)
        bodies.append(await request.read())
        return web.json_response(ANSWER)

    async with serving(note) as where:
        await performed(where, deadline_s=2.5, headers=(("Authorization", "Bearer x"),))
    (request,) = seen
    assert request.path == "/v1/answer" and bodies == [ASKED.body]
    assert request.headers["x-request-id"] == "load-r-0"
    assert request.headers["x-crag-timeout-s"] == "2.5"
    assert request.headers["Authorization"] == "Bearer x"
    assert request.headers["Host"] == f"127.0.0.1:{where.port}"


async def test_nobody_listens() -> None:
    record = await performed(target(free_port()))
    assert (record.outcome, record.code, record.sent_s) == (Outcome.CONNECTION_ERROR, "refused", None)


def saying(*pieces: bytes) -> Talk:
    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await read_request(reader)
        for piece in pieces:
            writer.write(piece)
            await writer.drain()
        writer.close()

    return talk


def framed(*events: bytes) -> bytes:
    return b"".join(b"%x\r\n%b\r\n" % (len(event), event) for event in events)


@pytest.mark.parametrize(
    ("said", "prepared", "outcome", "code"),
    [
        ([], ASKED, Outcome.CONNECTION_ERROR, "closed"),
        ([b"SSH-2.0-OpenSSH\r\n"], ASKED, Outcome.BAD_ANSWER, "not_http"),
        ([b"HTTP/1.1 200 OK\r\ncontent-length: 99\r\n\r\n{"], ASKED, Outcome.CONNECTION_ERROR, "cut"),
        ([b"HTTP/1.1 200 OK\r\n\r\n", json.dumps(ANSWER).encode()], ASKED, Outcome.OK, ""),
        ([b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 429 No\r\ncontent-length: 0\r\n\r\n"], ASKED,
         Outcome.SHED, "http_429"),
        ([OK_HEAD, framed(chunk("a"))], STREAMED, Outcome.BROKEN_STREAM, "cut"),
        ([OK_HEAD, framed(chunk("a")), b"zz"], STREAMED, Outcome.BAD_ANSWER, "not_http"),
        ([OK_HEAD, framed(chunk("a"), chunk(finish="stop")), b"0\r\n\r\n"], STREAMED,
         Outcome.BROKEN_STREAM, "no_done"),
        ([OK_HEAD, framed(chunk("a"), b'data: {"error": {"code": "internal"}}\n\n', DONE),
          b"0\r\n\r\n"], STREAMED, Outcome.BROKEN_STREAM, "internal"),
        ([OK_HEAD, framed(chunk("a"), chunk(finish="stop"), DONE), b"0\r\n\r\n"], STREAMED,
         Outcome.OK, ""),
        ([b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}"], STREAMED, Outcome.BAD_ANSWER,
         "not_a_stream"),
    ],
)  # fmt: skip
async def test_bytes_of_all_sorts_have_their_outcomes(
    said: list[bytes], prepared: Prepared, outcome: Outcome, code: str
) -> None:
    async with talking(saying(*said)) as where:
        record = await performed(where, prepared)
    assert (record.outcome, record.code) == (outcome, code)


async def test_tokens_are_timed_as_they_arrive() -> None:
    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await read_request(reader)
        writer.write(OK_HEAD)
        for event in (chunk("a"), chunk("b"), chunk("c"), chunk(finish="stop"), DONE):
            await asyncio.sleep(0.1)
            writer.write(framed(event))
        writer.write(b"0\r\n\r\n")

    async with talking(talk) as where:
        record = await performed(where, STREAMED)
    assert record.first_token_s is not None and 0.09 < record.first_token_s < 0.3
    assert len(record.gaps_s) == 2 and 0.15 < sum(record.gaps_s) < 0.6, "three tokens, two gaps"
    assert 0.49 < record.latency_s < 1.5


async def test_a_client_gives_up_and_its_server_sees_it() -> None:
    cancelled = asyncio.Event()

    async def hang(_: web.Request) -> web.Response:
        try:
            await asyncio.sleep(30)
        except asyncio.CancelledError:
            cancelled.set()
            raise
        return web.Response()

    async with serving(hang) as where:
        record = await performed(where, timeout_s=0.2)
        assert record.outcome is Outcome.CLIENT_TIMEOUT
        assert 0.19 < record.latency_s < 5
        await asyncio.wait_for(cancelled.wait(), 5)


async def test_hanging_up_is_no_failure_and_an_answer_before_it_is_one() -> None:
    async def slow(_: web.Request) -> web.Response:
        await asyncio.sleep(0.3)
        return web.json_response(ANSWER)

    async with serving(slow) as where:
        early = await performed(where, Prepared(Kind.ANSWER, b"{}", hang_up_after_s=0.1))
        late = await performed(where, Prepared(Kind.ANSWER, b"{}", hang_up_after_s=3.0))
        never = await performed(where, Prepared(Kind.ANSWER, b"{}", hang_up_after_s=9.0), timeout_s=0.1)
    assert early.outcome is Outcome.HUNG_UP and early.latency_s < late.latency_s
    assert late.outcome is Outcome.OK
    assert never.outcome is Outcome.CLIENT_TIMEOUT


@pytest.mark.parametrize(("header", "least_s"), [({"Retry-After": "1"}, 1.0), ({}, 0.2)])
async def test_retries_wait_as_long_as_they_are_asked_to(header: dict[str, str], least_s: float) -> None:
    calls = 0

    async def shed_once(_: web.Request) -> web.Response:
        nonlocal calls
        calls += 1
        if calls == 1:
            return web.Response(status=429, headers=header)
        return web.json_response(ANSWER)

    async with serving(shed_once) as where:
        record = await performed(where, retries=2)
    assert (record.outcome, record.attempts) == (Outcome.OK, 2)
    assert least_s <= record.latency_s < least_s + 5, "measured from when it was first due"
    assert record.sent_s is not None and record.sent_s < least_s


async def test_a_retry_that_cannot_come_in_time_is_not_waited_for() -> None:
    async with serving(replying(503, b"", **{"Retry-After": "20"})) as where:
        record = await performed(where, retries=5, timeout_s=2.0)
    assert (record.outcome, record.attempts) == (Outcome.FAILED, 1)
    assert record.latency_s < 2


async def test_what_a_retry_cannot_help_is_not_retried() -> None:
    async with serving(replying(422, b"")) as where:
        assert (await performed(where, retries=5)).attempts == 1


async def test_a_connection_is_kept_as_long_as_its_server_keeps_it() -> None:
    ports = []

    async def note(request: web.Request) -> web.Response:
        assert request.transport is not None
        ports.append(request.transport.get_extra_info("peername")[1])
        reply = web.json_response(ANSWER)
        if len(ports) == 2:
            reply.force_close()
        return reply

    async with serving(note) as where:
        pool = ConnectionPool(where, 4)
        client = Client(where, ClientSettings(), pool, run="r", start_s=time.monotonic())
        records = [await client.perform(ASKED, number, 0.0) for number in range(4)]
        pool.close()
    assert {record.outcome for record in records} == {Outcome.OK}
    assert ports[0] == ports[1] != ports[2] == ports[3]
