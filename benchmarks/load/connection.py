"""One HTTP/1.1 connection that stamps bytes as they arrive, and the pool of them.

A client library reads a reply some scheduling steps after its bytes came, and costs three times the
CPU; a load generator that is slow or late measures itself. The parser is httptools, as in uvicorn.
"""

import asyncio
import ssl
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import cast

import httptools

from benchmarks.load.target import Target, tls

_MAX_REPLY_BYTES = 64 * 1024 * 1024
_MAX_IDLE_S = 3.0
"""Servers close idle connections, uvicorn after 5 s: an older one may die under the next request."""


class NoConnection(Exception):
    """No connection, or one that ended before the reply did; the argument says which."""


class NotHttp(Exception):
    """What came is no HTTP reply, or one without end."""


@dataclass(slots=True)
class Reply:
    """A reply as it comes in; `on_body` is called with each piece of the body and its arrival time."""

    on_body: Callable[["Reply", bytes, float], None]
    done: "asyncio.Future[None]"
    status: int = 0
    headers: dict[bytes, bytes] = field(default_factory=dict)
    body_bytes: int = 0
    has_head: bool = False
    end_s: float = 0.0


class Connection(asyncio.Protocol):
    """One connection, one request at a time."""

    def __init__(self) -> None:
        self._transport: asyncio.Transport | None = None
        self._reply: Reply | None = None
        self._parser = httptools.HttpResponseParser(self)
        self._arrived_s = 0.0
        self.idle_since_s = 0.0
        self.is_usable = True

    async def exchange(self, request: bytes, on_body: Callable[[Reply, bytes, float], None]) -> Reply:
        """Send a request and read its whole reply; cancelled, it hangs up.

        Raises NoConnection when the connection ends first, NotHttp when no HTTP reply comes.
        """
        reply = Reply(on_body, asyncio.get_running_loop().create_future())
        if self._transport is None or not self.is_usable:
            raise NoConnection("closed")
        self._reply, is_whole = reply, False
        try:
            self._transport.write(request)
            await reply.done
            is_whole = True
        finally:
            self._reply = None
            if not is_whole:
                self.close()
        return reply

    def close(self) -> None:
        """Hang up, at once: what is not sent yet is not sent."""
        self.is_usable = False
        if self._transport is not None:
            self._transport.abort()

    # what asyncio calls

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the transport."""
        # uvloop's transports only behave as asyncio's
        self._transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        """Stamp and parse; bytes that nobody asked for end the connection."""
        self._arrived_s = time.monotonic()
        if self._reply is None:
            self.close()
            return
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserError as error:
            self._fail(NotHttp(type(error).__name__))

    def connection_lost(self, exc: Exception | None) -> None:
        """A reply without a length ends with its connection; any other is cut."""
        self.is_usable = False
        reply = self._reply
        if reply is None:
            return
        lengthless = not reply.headers.keys() & {b"content-length", b"transfer-encoding"}
        if reply.has_head and lengthless and exc is None:
            self.on_message_complete()
        else:
            self._fail(NoConnection("cut" if reply.has_head else "closed"))

    # what httptools calls

    def on_header(self, name: bytes, value: bytes) -> None:
        """Keep a header; of equal names the last."""
        if self._reply is not None:
            self._reply.headers[name.lower()] = value

    def on_headers_complete(self) -> None:
        """The head is whole."""
        if self._reply is not None:
            self._reply.status = self._parser.get_status_code()
            self._reply.has_head = self._reply.status >= 200

    def on_body(self, body: bytes) -> None:
        """Hand a piece on, within bounds."""
        reply = self._reply
        if reply is None:
            return
        reply.body_bytes += len(body)
        if reply.body_bytes > _MAX_REPLY_BYTES:
            self._fail(NotHttp("too_large"))
        else:
            reply.on_body(reply, body, self._arrived_s)

    def on_message_complete(self) -> None:
        """The reply is whole, unless it was one of the 1xx that go before it."""
        reply = self._reply
        if reply is None or not reply.has_head:
            return
        self.idle_since_s = reply.end_s = self._arrived_s
        self.is_usable = self.is_usable and self._parser.should_keep_alive()
        if not reply.done.done():
            reply.done.set_result(None)

    def _fail(self, error: Exception) -> None:
        self.is_usable = False
        if self._reply is not None and not self._reply.done.done():
            self._reply.done.set_exception(error)


class ConnectionPool:
    """Connections to one target: a free one, or a new one, `limit` at most."""

    def __init__(self, target: Target, limit: int) -> None:
        """Connects to the target's resolved address; where it has none, each connection looks it up."""
        self._target = target
        self._slots = asyncio.Semaphore(limit)
        self._idle: list[Connection] = []
        self._tls = tls() if target.scheme == "https" else None
        self.waited = 0

    @asynccontextmanager
    async def connection(self) -> AsyncIterator[Connection]:
        """A connection for one exchange. Raises NoConnection when none can be made."""
        self.waited += self._slots.locked()
        async with self._slots:
            connection = self._fresh_idle() or await self._connect()
            yield connection
            if connection.is_usable:
                self._idle.append(connection)
            else:
                connection.close()

    def close(self) -> None:
        """Close all that are idle."""
        for connection in self._idle:
            connection.close()

    def _fresh_idle(self) -> Connection | None:
        oldest_s = time.monotonic() - _MAX_IDLE_S
        while self._idle:
            connection = self._idle.pop()
            if connection.is_usable and connection.idle_since_s > oldest_s:
                return connection
            connection.close()
        return None

    async def _connect(self) -> Connection:
        address = self._target.ip or self._target.host
        name = self._target.host if self._tls else None
        try:
            _, connection = await asyncio.get_running_loop().create_connection(
                Connection, address, self._target.port, ssl=self._tls, server_hostname=name
            )
        except OSError as error:
            raise NoConnection(_reason(error)) from error
        return connection


def _reason(error: OSError) -> str:
    if isinstance(error, ConnectionRefusedError):
        return "refused"
    return "tls" if isinstance(error, ssl.SSLError) else "not_connected"
