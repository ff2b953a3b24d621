"""What a request carries from stage to stage: who it is, how urgent, and how long it may take."""

import asyncio
import time
from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import TypeVar

from crag_core.errors import StageTimedOut

Piece = TypeVar("Piece")


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

    def keeping(self, seconds: float) -> "RequestContext":
        """This context with a deadline so much sooner: the time is kept for what must still follow."""
        return replace(self, deadline_monotonic_s=self.deadline_monotonic_s - seconds)

    def require_time(self, stage: str, least_s: float = 0.0) -> None:
        """Raise StageTimedOut unless more than `least_s` are left: what cannot finish is not begun."""
        remaining_s = self.remaining_s()
        if remaining_s <= 0:
            raise StageTimedOut(f"no time was left for {stage}")
        if remaining_s <= least_s:
            raise StageTimedOut(
                f"{remaining_s:.2f} s were left for {stage}, which lately took {least_s:.2f} s at least"
            )

    def remaining_s(self) -> float:
        """Seconds left before the deadline; negative once it has passed."""
        return self.deadline_monotonic_s - time.monotonic()


async def until_deadline(
    ctx: RequestContext, stage: str, pieces: AsyncGenerator[Piece]
) -> AsyncGenerator[Piece]:
    """The pieces that come before the deadline; after it StageTimedOut, and their generator is closed.

    The limit holds for each step, since another task than the first may resume a generator.
    """
    async with aclosing(pieces):
        while True:
            try:
                async with asyncio.timeout(ctx.remaining_s()) as limit:
                    piece = await anext(pieces)
            except StopAsyncIteration:
                return
            except TimeoutError:
                if not limit.expired():
                    raise
                raise StageTimedOut(f"{stage} did not finish before the deadline") from None
            yield piece
