"""Those who wait for a wiki's budget, in order of urgency, then of arrival."""

import asyncio
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field

from crag_core.context import Lane
from deployments.backends.wikipedia.budget import Refused


@dataclass(eq=False, slots=True)
class Waiter:
    """One who waits for the right to send a request."""

    flight: int
    lane: Lane
    since_s: float
    give_up_at_s: float
    turn: "asyncio.Future[Refused | None]" = field(
        default_factory=lambda: asyncio.get_running_loop().create_future()
    )
    """Done when the request may be sent, or with the refusal."""


class WaitingLine:
    """Interactive callers first; `batch` and the rest behind them."""

    def __init__(self) -> None:
        """Nobody waits."""
        self._interactive: deque[Waiter] = deque()
        self._others: deque[Waiter] = deque()

    def __len__(self) -> int:
        return len(self._interactive) + len(self._others)

    def __iter__(self) -> Iterator[Waiter]:
        yield from self._interactive
        yield from self._others

    def ahead_of(self, lane: Lane) -> int:
        """How many stand before a newcomer of this lane."""
        return len(self._interactive) if lane is Lane.INTERACTIVE else len(self)

    def join(self, waiter: Waiter) -> None:
        """Stand at the end of the lane's line."""
        self._line_of(waiter.lane).append(waiter)

    def leave(self, waiter: Waiter) -> None:
        """Leave, wherever one stands; one who has left already may leave again."""
        line = self._line_of(waiter.lane)
        if waiter in line:
            line.remove(waiter)

    def first(self) -> Waiter:
        """Whose turn is next; raises StopIteration when nobody waits."""
        return next(iter(self))

    def _line_of(self, lane: Lane) -> deque[Waiter]:
        return self._interactive if lane is Lane.INTERACTIVE else self._others
