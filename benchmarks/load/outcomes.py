"""What became of a request: a closed list of outcomes, and the record of one."""

from array import array
from enum import StrEnum
from typing import NamedTuple


class Outcome(StrEnum):
    """How a request ended, as its client saw it."""

    OK = "ok"
    DEGRADED = "degraded"
    """Answered, and the answer says what it gave up."""
    SHED = "shed"
    """429."""
    TIMED_OUT = "timed_out"
    """504: the server kept its deadline and said so."""
    REFUSED = "refused"
    """Any other 4xx: the request was wrong, or not allowed."""
    FAILED = "failed"
    """Any other 5xx."""
    CLIENT_TIMEOUT = "client_timeout"
    """The client gave up waiting."""
    CONNECTION_ERROR = "connection_error"
    """No connection, or one that ended before the reply was whole."""
    BAD_ANSWER = "bad_answer"
    """A reply of status 200 that is no answer, or no HTTP at all."""
    BROKEN_STREAM = "broken_stream"
    """A stream with an error event, or without its finish or its `[DONE]`."""
    HUNG_UP = "hung_up"
    """The client hung up on purpose."""

    @property
    def is_answered(self) -> bool:
        """Whether a whole answer came."""
        return self in (Outcome.OK, Outcome.DEGRADED)


class Record(NamedTuple):
    """One request from when it was due to its end; times are seconds from the start of the run.

    `at_s` is when it was due, `sent_s` when its first byte was handed to the kernel (None where none
    was), `first_s` when the first piece of text came. `gaps_s` are the times between pieces.
    """

    number: int
    kind: str
    is_background: bool
    at_s: float
    sent_s: float | None
    end_s: float
    outcome: Outcome
    status: int = 0
    code: str = ""
    attempts: int = 1
    first_s: float | None = None
    gaps_s: "array[float]" = array("f")
    action: str = ""
    degraded: tuple[str, ...] = ()
    stages: tuple[tuple[str, float], ...] = ()
    stages_cover_s: float = 0.0
    completion_tokens: int = 0
    retry_after_s: float | None = None

    @property
    def latency_s(self) -> float:
        """From when it was due: waiting inside the generator counts, as it would for a person."""
        return self.end_s - self.at_s

    @property
    def service_s(self) -> float | None:
        """From when it was sent: what a generator that waits for answers would have reported."""
        return None if self.sent_s is None else self.end_s - self.sent_s

    @property
    def lateness_s(self) -> float | None:
        """How much later than due the generator sent it."""
        return None if self.sent_s is None else max(0.0, self.sent_s - self.at_s)

    @property
    def first_token_s(self) -> float | None:
        """From when it was due to the first piece of text."""
        return None if self.first_s is None else self.first_s - self.at_s
