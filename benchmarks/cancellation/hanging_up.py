"""Clients that hang up, and what the leaves noted of it."""

import json
import socket
import time
import uuid
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlsplit

from benchmarks.cancellation.slow_app import BEGUN, CANCELLED

_POLL_S = 0.002
_GIVE_UP_S = 30.0


class Note(NamedTuple):
    """One line of the leaves' notes; the time is the machine's monotonic clock."""

    at_s: float
    moment: str
    event: str
    request_id: str


class Notes:
    """The file that the leaves write to."""

    def __init__(self, path: Path) -> None:
        path.touch()
        self._path = path

    def all(self) -> Iterator[Note]:
        """Every note so far."""
        for line in self._path.read_text("utf-8").splitlines():
            at_s, moment, event, request_id = line.split()
            yield Note(float(at_s), moment, event, request_id)

    def when(self, moment: str, event: str, request_id: str) -> float:
        """When it happened, which is waited for. Raises TimeoutError."""
        give_up_s = time.monotonic() + _GIVE_UP_S
        while time.monotonic() < give_up_s:
            for note in self.all():
                if (note.moment, note.event, note.request_id) == (moment, event, request_id):
                    return note.at_s
            time.sleep(_POLL_S)
        raise TimeoutError(f"{request_id} was never {event} in {moment}")

    def open_moments(self) -> dict[str, int]:
        """By moment, how many began and have not ended in any way."""
        left: Counter[str] = Counter()
        for note in self.all():
            left[note.moment] += 1 if note.event == BEGUN else -1
        return {moment: count for moment, count in left.items() if count}

    def forget(self) -> None:
        """Begin anew."""
        self._path.write_text("")


@contextmanager
def asking(url: str, words: str, *, is_streamed: bool) -> Iterator[str]:
    """A client whose question has these words, by its request id; it hangs up when the block ends."""
    parts = urlsplit(url)
    question = f"Who built the lighthouse? {words}"
    if is_streamed:
        path = "/v1/chat/completions"
        messages = [{"role": "user", "content": question}]
        body = json.dumps({"model": "crag", "messages": messages, "stream": True}).encode()
    else:
        path, body = "/v1/answer", json.dumps({"question": question}).encode()
    request_id = f"gone-{uuid.uuid4().hex}"
    head = (
        f"POST {path} HTTP/1.1\r\nHost: {parts.netloc}\r\nContent-Type: application/json\r\n"
        f"x-request-id: {request_id}\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    with socket.create_connection((parts.hostname or "", parts.port or 80)) as connection:
        connection.sendall(head.encode() + body)
        yield request_id


def stopped_after_s(notes: Notes, url: str, moment: str, *, is_streamed: bool) -> float:
    """Seconds from the hang-up, in that moment of an answer, until its work was cancelled."""
    with asking(url, moment, is_streamed=is_streamed) as request_id:
        notes.when(moment, BEGUN, request_id)
        time.sleep(0.02)
        hung_up_s = time.monotonic()
    return notes.when(moment, CANCELLED, request_id) - hung_up_s


def stopped_in_queue_after_s(notes: Notes, url: str, *, is_streamed: bool) -> float:
    """The same for a completion that waits for its turn behind another."""
    with asking(url, "first_token", is_streamed=False) as holder:
        notes.when("first_token", BEGUN, holder)
        with asking(url, "waits", is_streamed=is_streamed) as request_id:
            notes.when("queue", BEGUN, request_id)
            time.sleep(0.02)
            hung_up_s = time.monotonic()
        return notes.when("queue", CANCELLED, request_id) - hung_up_s
