"""What a request carries from stage to stage: who it is, how urgent, and how long it may take."""

import time
from dataclasses import dataclass
from enum import StrEnum

from crag_core.errors import StageTimedOut


class Lane(StrEnum):
    """How urgent a request is; `explain` is for internal use."""

    INTERACTIVE = "interactive"
    BATCH = "batch"
    EXPLAIN = "explain"


@dataclass(frozen=True, slots=True)
class RequestContext:
    """A request's identity and deadline, valid in this process only.

    `deadline_monotonic_s` is on this process's monotonic clock, so it must never cross to another
    process: messages carry the remaining seconds instead.
    """

    request_id: str
    deadline_monotonic_s: float
    lane: Lane = Lane.INTERACTIVE
    traceparent: str | None = None

    @classmethod
    def starting_now(
        cls,
        request_id: str,
        remaining_s: float,
        lane: Lane = Lane.INTERACTIVE,
        traceparent: str | None = None,
    ) -> "RequestContext":
        """A context whose deadline is `remaining_s` seconds from now."""
        return cls(request_id, time.monotonic() + remaining_s, lane, traceparent)

    def require_time(self, stage: str) -> None:
        """Raise StageTimedOut when the deadline has passed: work that cannot finish is not begun."""
        if self.remaining_s() <= 0:
            raise StageTimedOut(f"no time was left for {stage}")

    def remaining_s(self) -> float:
        """Seconds left before the deadline; negative once it has passed."""
        return self.deadline_monotonic_s - time.monotonic()
