"""The suite sent to a server: on either route, a few requests at a time."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import httpx

from benchmarks.attack.suite import Case
from benchmarks.load.target import Target, tls
from benchmarks.patient_client import PatientClient
from benchmarks.workers import each
from crag_core.types import PipelineName

_MARGIN_S = 10.0
_BAD_ANSWER = "bad_answer"


class Route(StrEnum):
    """Which of the server's routes answers."""

    ANSWER = "answer"
    OPENAI = "openai"

    @property
    def path(self) -> str:
        """Where it is."""
        return "/v1/answer" if self is Route.ANSWER else "/v1/chat/completions"


@dataclass(frozen=True, slots=True)
class AskSettings:
    """How a server is asked; `patience_s` is how long it may stay away."""

    route: Route
    headers: tuple[tuple[str, str], ...]
    max_new_tokens: int
    concurrency: int
    timeout_s: float
    patience_s: float


@dataclass(frozen=True, slots=True)
class Row:
    """What became of one request: the answer in the shape of `/v1/answer`, or the error that ended it.

    `is_final` is false where the server was away, so that nothing can be said about the request.
    """

    id: str
    pipeline: PipelineName
    seconds: float
    answer: dict[str, Any] | None
    error: str | None
    is_final: bool

    @property
    def key(self) -> "Key":
        """What aligns rows with cases."""
        return (self.pipeline, self.id)


Key = tuple[PipelineName, str]
"""A pipeline, and a case's id."""


async def ask_all(
    target: Target,
    wanted: Iterable[tuple[PipelineName, Case]],
    settings: AskSettings,
    answered: Callable[[Row], None],
) -> None:
    """Send every case to its pipeline and hand on its row; never raises for what a server does."""
    async with httpx.AsyncClient(
        base_url=target.url, headers=settings.headers, timeout=settings.timeout_s + _MARGIN_S,
        verify=tls(), trust_env=False,
    ) as client:  # fmt: skip
        patient = PatientClient(client, settings.patience_s, settings.route.path)

        async def ask(one: tuple[PipelineName, Case]) -> None:
            pipeline, case = one
            reply = await patient.ask(f"attack-{pipeline}-{case.id}", body_of(case, pipeline, settings))
            answer, error = reply.answer, reply.error
            if answer is not None:
                try:
                    answer = _ANSWERS[settings.route](answer)
                except (KeyError, IndexError, TypeError):
                    answer, error = None, _BAD_ANSWER
            is_final = reply.is_final and error != _BAD_ANSWER
            answered(Row(case.id, pipeline, reply.seconds, answer, error, is_final))

        await each(wanted, settings.concurrency, ask)


def body_of(case: Case, pipeline: PipelineName, settings: AskSettings) -> dict[str, Any]:
    """The request's body; without the web, which has no part in it, and greedy."""
    asked: dict[str, Any] = {
        "documents": list(case.documents),
        "options": {"search": False},
        "timeout_s": settings.timeout_s,
    }
    match settings.route:
        case Route.ANSWER:
            asked["options"] |= {"temperature": 0, "max_new_tokens": settings.max_new_tokens}
            return {"question": case.question, "pipeline": pipeline, **asked}
        case Route.OPENAI:
            return {
                "model": pipeline,
                "messages": [{"role": "user", "content": case.question}],
                "temperature": 0,
                "max_tokens": settings.max_new_tokens,
                "crag": asked,
            }


def _native(reply: Mapping[str, Any]) -> dict[str, Any]:
    return {**reply, "answer": str(reply["answer"])}


def _completion(reply: Mapping[str, Any]) -> dict[str, Any]:
    return {**reply["crag"], "answer": str(reply["choices"][0]["message"]["content"])}


_ANSWERS: Mapping[Route, Callable[[Mapping[str, Any]], dict[str, Any]]] = {
    Route.ANSWER: _native,
    Route.OPENAI: _completion,
}
