"""What happened to each answer request, reported exactly once, however it ended."""

import asyncio
import logging
import time
import uuid
from dataclasses import dataclass, field
from typing import Protocol

from starlette.requests import ClientDisconnect, Request
from starlette.types import ASGIApp, Receive, Scope, Send

from crag_core.context import Lane
from crag_core.types import Answer, PipelineName
from deployments.api.routes import ANSWER_ROUTES

logger = logging.getLogger(__name__)

OK = "ok"
CLIENT_GONE = "client_gone"
"""The client hung up before its answer was complete; stands in logs (as 499) and metrics only."""


@dataclass(slots=True)
class Observation:
    """One answer request, filled in on its way; durations are in seconds from its arrival.

    `outcome` is `ok`, `client_gone` or an error's code. `pipeline` is `None` for a request refused
    before its pipeline was known, `answer` for one that got none, `key_id` for one without a key,
    `question` for one that has not said it.
    """

    request_id: str = ""
    answer_id: str = field(default_factory=lambda: uuid.uuid4().hex)
    outcome: str = OK
    question: str | None = None
    pipeline: PipelineName | None = None
    key_id: str | None = None
    lane: Lane = Lane.INTERACTIVE
    first_piece_s: float | None = None
    seconds: float = 0.0
    answer: Answer | None = None
    _arrived: float = field(default_factory=time.perf_counter)

    def saw(self, piece: str | Answer) -> None:
        """Note a piece of the answer, or the finished Answer."""
        if self.first_piece_s is None:
            self.first_piece_s = time.perf_counter() - self._arrived
        if isinstance(piece, Answer):
            self.answer = piece

    def ended(self) -> None:
        """Note how long it all took."""
        self.seconds = time.perf_counter() - self._arrived


class AnswerObserver(Protocol):
    """Told of each answer request, once, when it has ended."""

    def answered(self, observation: Observation) -> None: ...


class Observers:
    """Several observers as one."""

    def __init__(self, *observers: AnswerObserver) -> None:
        """Told in this order."""
        self._observers = observers

    def answered(self, observation: Observation) -> None:
        """Tell each of them."""
        for observer in self._observers:
            observer.answered(observation)


class ObserveAnswers:
    """ASGI middleware that gives each request its Observation and reports those of answer requests."""

    def __init__(self, app: ASGIApp, observer: AnswerObserver) -> None:
        """Reports to `observer`."""
        self._app = app
        self._observer = observer

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Run the application; an end by cancellation is a client that hung up."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        observation = scope["state"]["observation"] = Observation(scope["state"]["request_id"])
        try:
            await self._app(scope, receive, send)
        except (asyncio.CancelledError, ClientDisconnect):
            observation.outcome = CLIENT_GONE
            raise
        finally:
            observation.ended()
            if scope["method"] == "POST" and scope["path"] in ANSWER_ROUTES:
                self._observer.answered(observation)
            elif observation.outcome == CLIENT_GONE:
                request_id = observation.request_id
                logger.info("request %s: 499 after %.3f s", request_id, observation.seconds)


def observation_of(request: Request) -> Observation:
    """The request's Observation."""
    observation: Observation = request.state.observation
    return observation
