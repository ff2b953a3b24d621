"""Questions to a server that wait out its restarts and its overload."""

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import httpx
import stamina

_COMES_BACK = {429, 502, 503}
"""Statuses of a server that is busy, or on its way up."""


@dataclass(frozen=True, slots=True)
class Reply:
    """What became of one request: the whole answer, or the code of the error that ended it.

    `is_final` is false where the server was away or without room for all of the patience: asked again
    later, it may answer. `seconds` is the last attempt's.
    """

    answer: dict[str, Any] | None
    error: str | None
    is_final: bool
    attempts: int
    seconds: float


class ServerAway(Exception):
    """The server is not there now, or has no room; `code` says which."""

    def __init__(self, code: str) -> None:
        super().__init__(code)
        self.code = code


class Refused(Exception):
    """An error that asking again would not change."""


@dataclass(frozen=True, slots=True)
class PatientClient:
    """Asks again, less and less often, while the server is away, for up to `patience_s` a question."""

    client: httpx.AsyncClient
    patience_s: float
    path: str = "/v1/answer"

    async def ask(self, request_id: str, body: Mapping[str, Any]) -> Reply:
        """The reply to one body; never raises for what a server does."""
        started, attempts = time.perf_counter(), 0
        answer: dict[str, Any] | None = None
        error, is_final = None, True
        try:
            async for attempt in stamina.retry_context(
                on=ServerAway, attempts=None, timeout=self.patience_s, wait_initial=0.5, wait_max=10.0
            ):
                with attempt:
                    attempts, started = attempt.num, time.perf_counter()
                    answer = await self._posted(request_id, body)
        except ServerAway as away:
            error, is_final = away.code, False
        except Refused as refused:
            error = str(refused)
        return Reply(answer, error, is_final, attempts, time.perf_counter() - started)

    async def _posted(self, request_id: str, body: Mapping[str, Any]) -> dict[str, Any]:
        try:
            response = await self.client.post(self.path, json=body, headers={"x-request-id": request_id})
            reply = response.json()
        except httpx.RequestError as error:
            raise ServerAway(type(error).__name__) from error
        except ValueError as error:
            raise ServerAway(f"http_{response.status_code}") from error
        if response.status_code in _COMES_BACK:
            raise ServerAway(_code(response.status_code, reply))
        if response.status_code != httpx.codes.OK:
            raise Refused(_code(response.status_code, reply))
        answer: dict[str, Any] = reply
        return answer


def _code(status: int, reply: object) -> str:
    try:
        return str(reply["error"]["code"])  # type: ignore[index]  # whatever it is, it is looked at
    except (TypeError, KeyError):
        return f"http_{status}"
