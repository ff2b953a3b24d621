"""One piece of work for all who ask for the same at the same time."""

import asyncio
from collections.abc import Awaitable, Callable, Hashable
from typing import Generic, TypeVar

Key = TypeVar("Key", bound=Hashable)
Result = TypeVar("Result")

_GRACE_S = 0.1
"""The work ends by itself when time is up, and says why; its callers wait a little longer for that."""


class Deadline:
    """When a flight's last caller gives up; it moves when one with more time joins."""

    def __init__(self, at_s: float) -> None:
        """A deadline on the running loop's clock."""
        self.at_s = at_s
        self._joined = 0
        self._timeouts: list[asyncio.Timeout] = []

    def remaining_s(self) -> float:
        """Seconds left; negative once it has passed."""
        return self.at_s - asyncio.get_running_loop().time()

    def extend(self, at_s: float) -> None:
        """Move it to a later time; an earlier one is ignored."""
        self._joined += 1
        if at_s > self.at_s:
            self.at_s = at_s
            for timeout in self._timeouts:
                timeout.reschedule(at_s)

    def take_joined(self) -> int:
        """Callers who have joined since this was last asked."""
        joined, self._joined = self._joined, 0
        return joined

    async def bound(self, work: Awaitable[Result]) -> Result:
        """The work's result; raises TimeoutError when the deadline, wherever it is by then, passes."""
        async with asyncio.timeout_at(self.at_s) as timeout:
            self._timeouts.append(timeout)
            try:
                return await work
            finally:
                self._timeouts.remove(timeout)


class SingleFlight(Generic[Key, Result]):
    """Equal keys share a flight; a caller who leaves does not end it for the others, the last does."""

    def __init__(self) -> None:
        """Nothing is in flight."""
        self._flights: dict[Key, tuple[asyncio.Task[Result], Deadline]] = {}
        self._callers: dict[asyncio.Task[Result], int] = {}

    async def join(self, key: Key, at_s: float, work: Callable[[Deadline], Awaitable[Result]]) -> Result:
        """The result of `work(deadline)`, run by the first who asks; TimeoutError after `at_s`."""
        flight = self._flights.get(key)
        if flight is None:
            deadline = Deadline(at_s)
            task = asyncio.ensure_future(work(deadline))
            self._flights[key] = task, deadline
            self._callers[task] = 0
            task.add_done_callback(lambda done: self._forget(key, done))
        else:
            task, deadline = flight
            deadline.extend(at_s)
        self._callers[task] += 1
        try:
            async with asyncio.timeout_at(at_s + _GRACE_S):
                return await asyncio.shield(task)
        finally:
            self._callers[task] -= 1
            if not self._callers[task]:
                del self._callers[task]
                self._forget(key, task)  # a later caller must not join what is being cancelled
                task.cancel()

    def _forget(self, key: Key, task: "asyncio.Task[Result]") -> None:
        if key in self._flights and self._flights[key][0] is task:
            del self._flights[key]
