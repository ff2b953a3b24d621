"""One request as a client makes it: sent, read, perhaps sent again, given up or hung up on."""

import asyncio
import random
import time
from dataclasses import dataclass, field

from benchmarks.load.connection import ConnectionPool, NoConnection, NotHttp, Reply
from benchmarks.load.outcomes import Outcome, Record
from benchmarks.load.replies import (
    Reading,
    StreamReading,
    read_answer,
    read_completion,
    read_explanation,
    read_ranking,
    read_refusal,
)
from benchmarks.load.settings import ClientSettings
from benchmarks.load.target import Target
from benchmarks.load.workloads import Kind, Prepared

_READERS = {
    Kind.ANSWER: read_answer,
    Kind.CHAT: read_completion,
    Kind.RERANK: read_ranking,
    Kind.EXPLAIN: read_explanation,
}
_LONGEST_PAUSE_S = 60.0
_FIRST_PAUSE_S = 0.1


@dataclass(slots=True)
class _Attempt:
    """How far one attempt has come: it can be cut off at any moment."""

    prepared: Prepared
    body: bytearray = field(default_factory=bytearray)
    stream: StreamReading | None = None

    def took(self, reply: Reply, data: bytes, at_s: float) -> None:
        """A piece of the body."""
        if self.stream is None and self.prepared.is_streamed and _is_event_stream(reply):
            self.stream = StreamReading()
        if self.stream is None:
            self.body += data
        else:
            self.stream.took(data, at_s)

    def read(self, reply: Reply) -> Reading:
        """What the whole reply said."""
        if self.stream is not None:
            return self.stream.ended()
        if reply.status != 200:
            return read_refusal(reply.status, bytes(self.body))
        if self.prepared.is_streamed:
            return Reading(code="not_a_stream")
        return _READERS[self.prepared.kind](bytes(self.body))


@dataclass(slots=True)
class _Progress:
    """One request on its way; times are on the monotonic clock."""

    sent_s: float | None = None
    end_s: float = 0.0
    attempts: int = 0
    status: int = 0
    retry_after_s: float | None = None
    attempt: _Attempt | None = None


class Client:
    """Performs requests over a pool of connections."""

    def __init__(
        self, target: Target, settings: ClientSettings, pool: ConnectionPool, *, run: str, start_s: float
    ) -> None:
        """`run` stands in each request's id, `start_s` is the run's start on the monotonic clock."""
        self._settings, self._pool = settings, pool
        self._run, self._start_s = run, start_s
        self._heads = {kind: _head(target, kind, settings) for kind in Kind}

    async def perform(self, prepared: Prepared, index: int, at_s: float) -> Record:
        """Make one request that is due `at_s` seconds after the start; every end is a record."""
        due_s = self._start_s + at_s
        patience_s = self._settings.timeout_s
        hangs_up = prepared.hang_up_after_s is not None and prepared.hang_up_after_s < patience_s
        if prepared.hang_up_after_s is not None and hangs_up:
            patience_s = prepared.hang_up_after_s
        progress = _Progress()
        try:
            async with asyncio.timeout(due_s + patience_s - time.monotonic()):
                reading = await self._attempts(prepared, index, progress, due_s + patience_s)
        except TimeoutError:
            progress.end_s = time.monotonic()
            stream = progress.attempt.stream if progress.attempt else None
            reading = stream.ended(cut=True) if stream else Reading()
            reading.outcome = Outcome.HUNG_UP if hangs_up else Outcome.CLIENT_TIMEOUT
            reading.code = ""
        return self._record(prepared, index, at_s, progress, reading)

    async def _attempts(
        self, prepared: Prepared, index: int, progress: _Progress, give_up_s: float
    ) -> Reading:
        while True:
            progress.attempts += 1
            request = self._request(prepared, index, give_up_s - time.monotonic())
            reading = await self._attempt(prepared, request, progress)
            if progress.attempts > self._settings.retries or not _is_worth_a_retry(progress, reading):
                return reading
            pause_s = self._pause_s(index, progress)
            if time.monotonic() + pause_s >= give_up_s:
                return reading
            await asyncio.sleep(pause_s)

    async def _attempt(self, prepared: Prepared, request: bytes, progress: _Progress) -> Reading:
        attempt = progress.attempt = _Attempt(prepared)
        progress.status, progress.retry_after_s = 0, None
        try:
            async with self._pool.connection() as connection:
                if progress.sent_s is None:
                    progress.sent_s = time.monotonic()
                reply = await connection.exchange(request, attempt.took)
        except NoConnection as error:
            progress.end_s = time.monotonic()
            if attempt.stream is not None:
                return attempt.stream.ended(cut=True)
            return Reading(Outcome.CONNECTION_ERROR, str(error))
        except NotHttp:
            progress.end_s = time.monotonic()
            return Reading(code="not_http")
        progress.end_s, progress.status = reply.end_s, reply.status
        progress.retry_after_s = _seconds(reply.headers.get(b"retry-after", b""))
        return attempt.read(reply)

    def _pause_s(self, index: int, progress: _Progress) -> float:
        """What Retry-After asks for, or twice as long each time; spread, lest all come back at once."""
        asked_s = progress.retry_after_s
        base_s = _FIRST_PAUSE_S * 2**progress.attempts if asked_s is None else asked_s
        spread = random.Random(f"pause/{index}/{progress.attempts}").random()
        return min(base_s, _LONGEST_PAUSE_S) + spread * max(_FIRST_PAUSE_S, 0.1 * base_s)

    def _request(self, prepared: Prepared, index: int, patience_s: float) -> bytes:
        """The bytes to send; a deadline asked for is never later than the client's own patience."""
        mark = "b" if prepared.is_background else ""
        deadline_s = self._settings.deadline_s
        lines = [f"x-request-id: load-{self._run}-{mark}{index}"]
        if deadline_s is not None:
            lines.append(f"x-crag-timeout-s: {max(0.001, round(min(deadline_s, patience_s), 3)):g}")
        lines.append(f"content-length: {len(prepared.body)}")
        return b"%b%b\r\n\r\n%b" % (
            self._heads[prepared.kind],
            "\r\n".join(lines).encode(),
            prepared.body,
        )

    def _record(
        self, prepared: Prepared, index: int, at_s: float, progress: _Progress, reading: Reading
    ) -> Record:
        def relative(at: float | None) -> float | None:
            return None if at is None else at - self._start_s

        return Record(
            number=index,
            kind=prepared.kind,
            is_background=prepared.is_background,
            at_s=at_s,
            sent_s=relative(progress.sent_s),
            end_s=progress.end_s - self._start_s,
            outcome=reading.outcome,
            status=progress.status,
            code=reading.code,
            attempts=progress.attempts,
            first_s=relative(reading.first_s),
            gaps_s=reading.gaps_s,
            action=reading.action,
            degraded=reading.degraded,
            stages=reading.stages,
            stages_cover_s=reading.stages_cover_s,
            retry_after_s=progress.retry_after_s,
            completion_tokens=reading.completion_tokens,
        )


def _head(target: Target, kind: Kind, settings: ClientSettings) -> bytes:
    lines = [
        f"POST {target.prefix}{kind.path} HTTP/1.1",
        f"host: {target.authority}",
        "content-type: application/json",
        *(f"{name}: {value}" for name, value in settings.headers),
    ]
    return ("\r\n".join(lines) + "\r\n").encode("latin-1")


def _is_event_stream(reply: Reply) -> bool:
    return reply.status == 200 and reply.headers.get(b"content-type", b"").startswith(
        b"text/event-stream"
    )


def _is_worth_a_retry(progress: _Progress, reading: Reading) -> bool:
    return progress.status in (429, 503) or reading.outcome is Outcome.CONNECTION_ERROR


def _seconds(header: bytes) -> float | None:
    return float(header) if header.isdigit() and len(header) < 8 else None
