"""Speculation: work begun before the action that may need it is known, at low load only.

Strips of the internal documents are scored, and the web is searched, while the documents are being
evaluated. What the action does not use is cancelled. Under load speculation would take the evaluator
from other questions, so it stops as soon as their measured wait says so.
"""

import asyncio
import time
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Any, Generic, Self, TypeVar

from crag_core.refinement import KnownScores
from crag_core.searching import Searched
from crag_core.trace import Recorder
from crag_core.types import Speculated, Speculative

Result = TypeVar("Result")

_HALF_LIFE_S = 2.0


@dataclass(slots=True)
class QueueDelay:
    """How long questions lately waited for the evaluator: rises at once, then halves every 2 s.

    >>> delay = QueueDelay(clock=iter([0.0, 2.0]).__next__)
    >>> delay.observe(0.08)
    >>> delay.recent_s()
    0.04
    """

    clock: Callable[[], float] = time.monotonic
    _delay_s: float = 0.0
    _observed_s: float = 0.0

    def observe(self, delay_s: float) -> None:
        """A question waited so long."""
        now_s = self.clock()
        self._delay_s = max(delay_s, self._faded_s(now_s))
        self._observed_s = now_s

    def recent_s(self) -> float:
        """The delay to be expected now, in seconds."""
        return self._faded_s(self.clock())

    def _faded_s(self, now_s: float) -> float:
        if not self._delay_s:
            return 0.0
        return float(self._delay_s * 0.5 ** ((now_s - self._observed_s) / _HALF_LIFE_S))


class Ahead(Generic[Result]):
    """One piece of work begun ahead, with a record of its own until it turns out to be needed."""

    def __init__(
        self,
        what: Speculative,
        recorder: Recorder,
        work: Callable[[Recorder], Coroutine[Any, Any, Result]],
    ) -> None:
        self.what = what
        self._recorder = recorder
        self._own_recorder = recorder.aside()
        self._task = asyncio.create_task(work(self._own_recorder))

    async def result(self) -> Result:
        """Wait for it; its stages, and what it gave up, are the answer's from now on."""
        try:
            return await self._task
        finally:
            self._is_used()

    def result_if_ready(self) -> Result | None:
        """What has come in time, recorded as `result` does; None while it runs, or where it failed."""
        if not self._task.done() or self._task.cancelled() or self._task.exception():
            return None
        self._is_used()
        return self._task.result()

    async def drop(self) -> None:
        """Cancel what still runs; a search that was sent counts, used or not."""
        if self.what in self._recorder.speculated:
            return
        self._recorder.speculated[self.what] = Speculated.WASTED
        self._recorder.search_calls += self._own_recorder.search_calls
        self._task.cancel()
        await asyncio.wait([self._task])
        if not self._task.cancelled():
            self._task.exception()  # looked at, so that asyncio does not report it as forgotten

    def _is_used(self) -> None:
        self._recorder.absorb(self._own_recorder)
        self._recorder.speculated[self.what] = Speculated.USED


@dataclass(frozen=True, slots=True)
class Speculation:
    """What was begun ahead for one question; leaving it drops whatever no action has asked for."""

    strips: Ahead[KnownScores] | None = None
    pages: Ahead[Searched] | None = None

    async def keep(self, *needed: Speculative) -> None:
        """Drop what the action does not need, so that it takes nothing from what it does."""
        for ahead in (self.strips, self.pages):
            if ahead is not None and ahead.what not in needed:
                await ahead.drop()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *failure: object) -> None:
        await self.keep()
