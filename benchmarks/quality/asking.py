"""Asks every question that has no answer yet: a few in flight, patient with a server that restarts."""

import asyncio
import json
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, Protocol

import httpx
import stamina

from benchmarks.quality.ledger import Key, Ledger, Row
from benchmarks.quality.methods import Method, request_id, request_of
from benchmarks.quality.questions import EvalQuestion, QuestionSet

_COMES_BACK = {429, 502, 503}
"""Statuses of a server that is busy, or on its way up."""
_MARGIN_S = 10.0


class Baseline(Protocol):
    """A method that the API does not have: a question in, a reply of the API's shape out."""

    def __call__(
        self, request_id: str, question: str, timeout_s: float
    ) -> Awaitable[dict[str, Any]]: ...


@dataclass(frozen=True, slots=True)
class Server:
    """Who answers: the HTTP API, by a socket or in process, and baselines beside it."""

    client: httpx.AsyncClient
    baselines: Mapping[Method, Baseline]


@dataclass(frozen=True, slots=True)
class AskSettings:
    """How questions are asked; `patience_s` is how long a server may stay away."""

    options: Mapping[str, Any]
    given: bool
    concurrency: int
    timeout_s: float
    patience_s: float


class _Away(Exception):
    """The server is not there now, or has no room; `code` says which."""

    def __init__(self, code: str) -> None:
        super().__init__(code)
        self.code = code


class _Refused(Exception):
    """An error that asking again would not change."""


@asynccontextmanager
async def over_http(
    url: str, headers: Sequence[tuple[str, str]], timeout_s: float
) -> AsyncIterator[Server]:
    """A server at an address, sent these headers with every request."""
    async with httpx.AsyncClient(base_url=url, headers=headers, timeout=timeout_s + _MARGIN_S) as client:
        yield Server(client, {})


async def ask_all(
    server: Server,
    sets: Sequence[QuestionSet],
    keys: Iterable[Key],
    ledger: Ledger,
    settings: AskSettings,
    answered: Callable[[Row], None],
) -> None:
    """Ask for every key and write its row; a failure is a row too, and counts as a wrong answer.

    What `answered` raises ends the run; what was answered by then is kept.
    """
    questions = {(each.name, question.id): question for each in sets for question in each.questions}
    waiting = iter(list(keys))

    async def work() -> None:
        for key in waiting:  # one iterator for all workers: each key is taken once
            row = await _asked(server, key, questions[key[0], key[2]], settings)
            ledger.add(row)
            answered(row)

    try:
        async with asyncio.TaskGroup() as workers:
            for _ in range(settings.concurrency):
                workers.create_task(work())
    except BaseExceptionGroup as failures:
        raise failures.exceptions[0] from None


async def _asked(server: Server, key: Key, question: EvalQuestion, settings: AskSettings) -> Row:
    set_name, method, question_id = key
    name = request_id(set_name, question_id)
    started, attempts, reply, error = time.perf_counter(), 0, None, None
    try:
        async for attempt in stamina.retry_context(
            on=_Away, attempts=None, timeout=settings.patience_s, wait_initial=0.5, wait_max=10.0
        ):
            with attempt:
                attempts = attempt.num
                started = time.perf_counter()
                if method in server.baselines:
                    baseline = server.baselines[method]
                    reply = await baseline(name, question.text, settings.timeout_s)
                else:
                    body = request_of(method, question, settings.options, given=settings.given)
                    reply = await _posted(server.client, name, body, settings.timeout_s)
    except (_Away, _Refused) as failure:
        error = str(failure)
    return Row(set_name, method, question_id, time.perf_counter() - started, attempts, reply, error)


async def _posted(
    client: httpx.AsyncClient, name: str, body: dict[str, Any], timeout_s: float
) -> dict[str, Any]:
    try:
        response = await client.post(
            "/v1/answer", json={**body, "timeout_s": timeout_s}, headers={"x-request-id": name}
        )
        reply = response.json()
    except httpx.TransportError as error:
        raise _Away(type(error).__name__) from error
    except json.JSONDecodeError as error:
        raise _Away(f"http_{response.status_code}") from error
    if response.status_code in _COMES_BACK:
        raise _Away(_code(response.status_code, reply))
    if response.status_code != httpx.codes.OK:
        raise _Refused(_code(response.status_code, reply))
    answer: dict[str, Any] = reply
    return answer


def _code(status: int, reply: object) -> str:
    try:
        return str(reply["error"]["code"])  # type: ignore[index]  # whatever it is, it is looked at
    except (TypeError, KeyError):
        return f"http_{status}"
