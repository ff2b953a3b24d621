"""Asks every question that has no answer yet: a few in flight, patient with a server that restarts."""

import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, Protocol

import httpx

from benchmarks.patient_client import PatientClient
from benchmarks.quality.ledger import Key, Ledger, Row
from benchmarks.quality.methods import Method, request_id, request_of
from benchmarks.quality.questions import EvalQuestion, QuestionSet
from benchmarks.workers import each
from crag_core.errors import CragError

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
    questions = {(one.name, question.id): question for one in sets for question in one.questions}

    async def ask(key: Key) -> None:
        row = await _asked(server, key, questions[key[0], key[2]], settings)
        ledger.add(row)
        answered(row)

    await each(keys, settings.concurrency, ask)


async def _asked(server: Server, key: Key, question: EvalQuestion, settings: AskSettings) -> Row:
    set_name, method, question_id = key
    name = request_id(set_name, question_id)
    if method in server.baselines:
        started = time.perf_counter()
        try:
            answer = await server.baselines[method](name, question.text, settings.timeout_s)
        except CragError as error:
            return Row(*key, time.perf_counter() - started, 1, None, error.code)
        return Row(*key, time.perf_counter() - started, 1, answer)
    body = request_of(method, question, settings.options, given=settings.given)
    patient = PatientClient(server.client, settings.patience_s)
    reply = await patient.ask(name, {**body, "timeout_s": settings.timeout_s})
    return Row(*key, reply.seconds, reply.attempts, reply.answer, reply.error)
