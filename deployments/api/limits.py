"""What holds for every request before its route is known: an id, and a JSON body within bounds."""

import asyncio
import re
import uuid

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from deployments.api.errors import (
    body_too_large,
    body_too_slow,
    headers_too_large,
    unsupported_media_type,
)

_REQUEST_ID = re.compile(r"[A-Za-z0-9_.-]{1,64}")
_DISCARDED_BODIES = 4
"""A body over the limit is read on, and thrown away, up to this many times the limit: most clients
read a response only after they have sent everything."""
_MAX_HEADER_BYTES = 64_000


class RequestLimits:
    """ASGI middleware: names the request, and refuses a body as soon as it is known to be unfit.

    The errors are raised where the body is read, so that an unknown route stays a 404.
    """

    def __init__(self, app: ASGIApp, max_body_bytes: int, max_body_s: float) -> None:
        """Bodies may have up to `max_body_bytes`, announced or not, and take `max_body_s` to arrive."""
        self._app = app
        self._max_body_bytes = max_body_bytes
        self._max_body_s = max_body_s

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Run the application with a bounded `receive` and a `send` that adds the id."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        request_id = _request_id(headers.get("x-request-id", ""))
        scope.setdefault("state", {})["request_id"] = request_id

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message)["x-request-id"] = request_id
            await send(message)

        await self._app(scope, self._bounded(receive, headers), send_with_headers)

    def _bounded(self, receive: Receive, headers: Headers) -> Receive:
        announced = headers.get("content-length", "")
        announced_bytes = int(announced) if announced.isdecimal() else 0
        read_bytes = 0
        arrives_by: float | None = asyncio.get_running_loop().time() + self._max_body_s

        async def receive_within_limits() -> Message:
            nonlocal read_bytes, arrives_by
            if read_bytes == 0:
                _check_headers(headers)
            try:
                async with asyncio.timeout_at(arrives_by):
                    message = await receive()
                    read_bytes += len(message.get("body", b""))
                    if read_bytes > self._max_body_bytes or announced_bytes > self._max_body_bytes:
                        await _discard(receive, message, self._max_body_bytes * _DISCARDED_BODIES)
                        raise body_too_large(self._max_body_bytes)
            except TimeoutError as error:
                raise body_too_slow(self._max_body_s) from error
            if not message.get("more_body", False):
                arrives_by = None  # from here on, this waits for the client to hang up
            return message

        return receive_within_limits


async def _discard(receive: Receive, message: Message, max_bytes: int) -> None:
    while message.get("more_body", False) and max_bytes > 0:
        message = await receive()
        max_bytes -= len(message.get("body", b""))


def _request_id(given: str) -> str:
    return given if _REQUEST_ID.fullmatch(given) else uuid.uuid4().hex


def _check_headers(headers: Headers) -> None:
    if sum(len(name) + len(value) for name, value in headers.raw) > _MAX_HEADER_BYTES:
        raise headers_too_large(_MAX_HEADER_BYTES)
    if not _is_plain_json(headers):
        raise unsupported_media_type()


def _is_plain_json(headers: Headers) -> bool:
    if headers.get("content-encoding", "identity").lower() != "identity":
        return False
    media_type = headers.get("content-type", "").partition(";")[0].strip().lower()
    return media_type == "application/json" or (
        media_type.startswith("application/") and media_type.endswith("+json")
    )
