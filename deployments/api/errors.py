"""Errors as HTTP: the one file that knows statuses.

Every error leaves as `{"error": {"code", "message", "field"?, "request_id"}}`. The message is the
error's own `message`, never `str(error)`: through Ray that is the whole remote traceback.
"""

import json
import logging
import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any

from fastapi import FastAPI
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from crag_core import errors
from deployments.api.observing import CLIENT_GONE, observation_of
from deployments.api.routes import OPENAI_ROUTES
from deployments.api.schemas.error import ErrorBody

logger = logging.getLogger(__name__)

STATUS_OF: Mapping[type[errors.CragError], HTTPStatus] = {
    errors.CragError: HTTPStatus.INTERNAL_SERVER_ERROR,
    errors.InvalidQuestion: HTTPStatus.UNPROCESSABLE_ENTITY,
    errors.InvalidTimeout: HTTPStatus.UNPROCESSABLE_ENTITY,
    errors.PromptTooLong: HTTPStatus.BAD_REQUEST,
    errors.PipelineNotConfigured: HTTPStatus.NOT_FOUND,
    errors.ExplanationsNotConfigured: HTTPStatus.NOT_FOUND,
    errors.AnswerNotFound: HTTPStatus.NOT_FOUND,
    errors.QualityBelowMinimum: HTTPStatus.UNPROCESSABLE_ENTITY,
    errors.Overloaded: HTTPStatus.TOO_MANY_REQUESTS,
    errors.NotReady: HTTPStatus.SERVICE_UNAVAILABLE,
    errors.StageUnavailable: HTTPStatus.SERVICE_UNAVAILABLE,
    errors.StageTimedOut: HTTPStatus.GATEWAY_TIMEOUT,
    errors.StageFailed: HTTPStatus.INTERNAL_SERVER_ERROR,
    errors.SearchFailed: HTTPStatus.BAD_GATEWAY,
    errors.SearchBudgetSpent: HTTPStatus.TOO_MANY_REQUESTS,
    errors.SearchThrottled: HTTPStatus.SERVICE_UNAVAILABLE,
    errors.SearchCircuitOpen: HTTPStatus.SERVICE_UNAVAILABLE,
    errors.SearchTimedOut: HTTPStatus.GATEWAY_TIMEOUT,
    errors.MalformedCompletion: HTTPStatus.BAD_GATEWAY,
}
"""One row per decision; a class without a row has its nearest ancestor's."""

_RETRY_AFTER_S = {HTTPStatus.TOO_MANY_REQUESTS: 1, HTTPStatus.SERVICE_UNAVAILABLE: 5}

INVALID_REQUEST = "invalid_request"
MALFORMED_JSON = "malformed_json"
UNSUPPORTED_FIELD = "unsupported_field"
"""Also the type of a validator's PydanticCustomError for a value that is known but not supported."""

_CODE_OF_VALIDATION = {
    "extra_forbidden": UNSUPPORTED_FIELD,
    UNSUPPORTED_FIELD: UNSUPPORTED_FIELD,
    "json_invalid": MALFORMED_JSON,
}
_CODE_OF_FIELD = {
    "question": errors.InvalidQuestion.code,
    "query": errors.InvalidQuestion.code,
    "messages": errors.InvalidQuestion.code,
    "choices": errors.InvalidQuestion.code,
    "timeout_s": errors.InvalidTimeout.code,
    "x-crag-timeout-s": errors.InvalidTimeout.code,
}
_UNAUTHORIZED = "unauthorized"
_FORBIDDEN = "forbidden"
_BODY_TOO_SLOW = "body_too_slow"
_BODY_TOO_LARGE = "body_too_large"
_UNSUPPORTED_MEDIA_TYPE = "unsupported_media_type"
_CODE_OF_STATUS = {
    HTTPStatus.BAD_REQUEST: MALFORMED_JSON,
    HTTPStatus.UNAUTHORIZED: _UNAUTHORIZED,
    HTTPStatus.FORBIDDEN: _FORBIDDEN,
    HTTPStatus.NOT_FOUND: "not_found",
    HTTPStatus.METHOD_NOT_ALLOWED: "method_not_allowed",
    HTTPStatus.REQUEST_TIMEOUT: _BODY_TOO_SLOW,
    HTTPStatus.REQUEST_ENTITY_TOO_LARGE: _BODY_TOO_LARGE,
    HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE: "headers_too_large",
    HTTPStatus.UNSUPPORTED_MEDIA_TYPE: _UNSUPPORTED_MEDIA_TYPE,
}
OF_A_BODY: Mapping[HTTPStatus, Sequence[str]] = {
    HTTPStatus.BAD_REQUEST: [MALFORMED_JSON, UNSUPPORTED_FIELD],
    HTTPStatus.REQUEST_TIMEOUT: [_BODY_TOO_SLOW],
    HTTPStatus.REQUEST_ENTITY_TOO_LARGE: [_BODY_TOO_LARGE],
    HTTPStatus.UNSUPPORTED_MEDIA_TYPE: [_UNSUPPORTED_MEDIA_TYPE],
    HTTPStatus.UNPROCESSABLE_ENTITY: [INVALID_REQUEST],
}
"""How a route that reads a body may refuse it."""

OF_A_PATH: Mapping[HTTPStatus, Sequence[str]] = {HTTPStatus.UNPROCESSABLE_ENTITY: [INVALID_REQUEST]}
"""How a route may refuse what stands in its path."""

_MESSAGE_OF_STATUS = {
    HTTPStatus.BAD_REQUEST: "the body is not JSON in UTF-8",
    HTTPStatus.NOT_FOUND: "there is no such route: GET / names them",
    HTTPStatus.METHOD_NOT_ALLOWED: "this route takes another method",
}
_OPENAI_TYPES = {
    HTTPStatus.UNAUTHORIZED: "authentication_error",
    HTTPStatus.FORBIDDEN: "permission_error",
    HTTPStatus.TOO_MANY_REQUESTS: "rate_limit_error",
}

_SHOWN_CHARACTERS = 300
"""A client's own words in a message or a field's name are cut here."""


@dataclass(frozen=True, slots=True)
class Failure:
    """An error as its client is told of it."""

    status: HTTPStatus
    code: str
    message: str
    field: str | None = None

    def body(self, request: Request) -> dict[str, Any]:
        """The JSON body for this request's route."""
        error = {"code": self.code, "message": self.message[:_SHOWN_CHARACTERS]}
        if self.field:
            error["field"] = self.field[:_SHOWN_CHARACTERS]
        error["request_id"] = request.state.request_id
        if request.scope["path"] not in OPENAI_ROUTES:
            return {"error": error}
        return {"error": {**error, "type": self._openai_type(), "param": error.get("field")}}

    def _openai_type(self) -> str:
        fallback = "server_error" if _is_server_error(self.status) else "invalid_request_error"
        return _OPENAI_TYPES.get(self.status, fallback)


def status_of(kind: type[errors.CragError]) -> HTTPStatus:
    """The status of an error class: that of its nearest ancestor with a row in the table."""
    return next(STATUS_OF[ancestor] for ancestor in kind.__mro__ if ancestor in STATUS_OF)


def refused(field: str, message: str) -> RequestValidationError:
    """A refusal of one field of the body, for limits that only the settings know."""
    return RequestValidationError(
        [{"type": "value_error", "loc": ("body", *field.split(".")), "msg": message}]
    )


def body_too_large(max_body_bytes: int) -> HTTPException:
    """A body over the limit."""
    return HTTPException(
        HTTPStatus.REQUEST_ENTITY_TOO_LARGE, f"the body may have {max_body_bytes} bytes at most"
    )


def unsupported_media_type() -> HTTPException:
    """A body that does not say it is JSON, or is compressed: nobody knows how large it would become."""
    return HTTPException(
        HTTPStatus.UNSUPPORTED_MEDIA_TYPE,
        "the body must have the content type application/json, and no content encoding",
    )


def headers_too_large(max_bytes: int) -> HTTPException:
    """Headers that no client of ours has."""
    return HTTPException(
        HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE, f"the headers may have {max_bytes} bytes at most"
    )


def body_too_slow(max_body_s: float) -> HTTPException:
    """A body that does not arrive; what has not come yet would be read as the next request."""
    return HTTPException(
        HTTPStatus.REQUEST_TIMEOUT,
        f"the body did not arrive within {max_body_s:g} s",
        {"Connection": "close"},
    )


def unauthorized() -> HTTPException:
    """A request without a key that is known."""
    return HTTPException(
        HTTPStatus.UNAUTHORIZED,
        "this needs a key: send the header `Authorization: Bearer KEY` with one of this server's",
        {"WWW-Authenticate": "Bearer"},
    )


def forbidden(reason: str) -> HTTPException:
    """A key that does not open this route."""
    return HTTPException(HTTPStatus.FORBIDDEN, reason)


def failed(request: Request, error: Exception) -> Failure:
    """Turn an error into what the client is told; note it, and log it when it is the server's."""
    failure = _failure(error)
    gone = isinstance(error.__cause__, ClientDisconnect)
    observation_of(request).outcome = CLIENT_GONE if gone else failure.code
    if _is_server_error(failure.status):
        is_fault = failure.status is HTTPStatus.INTERNAL_SERVER_ERROR
        logger.error(
            "request %s: %d %s: %s",
            request.state.request_id,
            failure.status,
            failure.code,
            failure.message,
            exc_info=error if is_fault else None,
        )
    return failure


def install(api: FastAPI) -> None:
    """Answer the errors that are expected; `AnswerBugs` answers the rest."""
    for kind in (errors.CragError, RequestValidationError, HTTPException):
        api.add_exception_handler(kind, _answer_error)


def documented(
    *kinds: type[errors.CragError], refusals: Mapping[HTTPStatus, Sequence[str]] = OF_A_BODY
) -> dict[int | str, dict[str, Any]]:
    """The error responses of a route that needs a key, for the OpenAPI document.

    `kinds` are what it raises, `refusals` the codes by which it turns away what it is sent.
    """
    codes: dict[HTTPStatus, list[str]] = defaultdict(list)
    codes.update((status, list(known)) for status, known in refusals.items())
    codes[HTTPStatus.UNAUTHORIZED] = [_UNAUTHORIZED]
    codes[HTTPStatus.FORBIDDEN] = [_FORBIDDEN]
    codes[HTTPStatus.INTERNAL_SERVER_ERROR] = [errors.CragError.code]
    for kind in kinds:
        codes[status_of(kind)].append(kind.code)
    return {
        int(status): {
            "model": ErrorBody,
            "description": f"{status.phrase}: " + ", ".join(f"`{code}`" for code in codes[status]),
        }
        for status in sorted(codes)
    }


class AnswerBugs:
    """ASGI middleware that answers a bug as JSON, without a word of what it was."""

    def __init__(self, app: ASGIApp) -> None:
        """Wraps everything that runs for a route."""
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Run the application; a response that has begun can only be cut off."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        begun = False

        async def send_noting(message: Message) -> None:
            nonlocal begun
            begun = True
            await send(message)

        try:
            await self._app(scope, receive, send_noting)
        except ClientDisconnect:
            raise
        except Exception as error:
            response = await _answer_error(Request(scope), error)
            if begun:
                raise
            await response(scope, receive, send)


class _ErrorResponse(JSONResponse):
    """JSON in ASCII, because what it quotes may not be encodable."""

    def render(self, content: Any) -> bytes:
        return json.dumps(content).encode("ascii")


def _is_server_error(status: HTTPStatus) -> bool:
    return status >= HTTPStatus.INTERNAL_SERVER_ERROR


async def _answer_error(request: Request, error: Exception) -> Response:
    failure = failed(request, error)
    headers = dict(getattr(error, "headers", None) or {})
    if failure.status in _RETRY_AFTER_S:
        retry_after_s = getattr(error, "retry_after_s", None) or _RETRY_AFTER_S[failure.status]
        headers["Retry-After"] = str(math.ceil(retry_after_s))
    return _ErrorResponse(failure.body(request), failure.status, headers)


def _failure(error: Exception) -> Failure:
    match error:
        case errors.CragError():
            return Failure(status_of(type(error)), error.code, error.message)
        case RequestValidationError():
            return _refusal(error.errors())
        case HTTPException():
            status = HTTPStatus(error.status_code)
            code = _CODE_OF_STATUS.get(status, status.name.lower())
            return Failure(status, code, _MESSAGE_OF_STATUS.get(status, error.detail))
        case _:
            message = "something went wrong on the server: its log has the request's id"
            return Failure(HTTPStatus.INTERNAL_SERVER_ERROR, errors.CragError.code, message)


def _refusal(problems: Sequence[Mapping[str, Any]]) -> Failure:
    """One problem is told: an unsupported field first, since it often explains the others."""
    problem = next((p for p in problems if p["type"] in _CODE_OF_VALIDATION), problems[0])
    place, *path = problem["loc"]
    code = _CODE_OF_VALIDATION.get(problem["type"])
    if code == MALFORMED_JSON:
        reason = f"the body is not JSON: {problem['ctx']['error']} at character {path[0]}"
        return Failure(HTTPStatus.BAD_REQUEST, code, reason)
    field = ".".join(str(part) for part in path)
    if place == "header":
        field = field.replace("_", "-")
    if code == UNSUPPORTED_FIELD:
        reason = "is not supported" if problem["type"] == "extra_forbidden" else problem["msg"]
        return Failure(HTTPStatus.BAD_REQUEST, code, f"`{field}` {reason}", field)
    root = field.removeprefix("crag.").partition(".")[0]
    reason = problem["msg"].removeprefix("Value error, ")
    if not field and problem["type"] != "value_error":
        reason = "must be a JSON object, its names in UTF-8"
    message = f"`{field}`: {reason}" if field else f"the body {reason}"
    code = _CODE_OF_FIELD.get(root, INVALID_REQUEST)
    return Failure(HTTPStatus.UNPROCESSABLE_ENTITY, code, message, field or None)
