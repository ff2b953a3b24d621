"""An event loop whose clock jumps to the next timer, so that an hour passes in seconds."""

import asyncio
import selectors
from collections.abc import Coroutine
from typing import Any, TypeVar

Result = TypeVar("Result")


class _Jumping(selectors.SelectSelector):
    """Never waits: the time that it should have waited has passed."""

    now_s = 0.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        ready = super().select(0)
        if not ready:
            if timeout is None:
                raise RuntimeError("everything waits for something that will never come")
            self.now_s += max(0.0, timeout)
        return ready


class SimulatedLoop(asyncio.SelectorEventLoop):
    """An event loop on simulated time, for code that waits for timers alone; it starts at 0 seconds."""

    def __init__(self) -> None:
        """A loop at second 0."""
        self._jumping = _Jumping()
        super().__init__(self._jumping)

    def time(self) -> float:
        """Simulated seconds."""
        return self._jumping.now_s


def run_simulated(main: Coroutine[Any, Any, Result]) -> Result:
    """Run a coroutine to its end on simulated time."""
    with asyncio.Runner(loop_factory=SimulatedLoop) as runner:
        return runner.run(main)
