"""The prepare thread: tokenises for many callers at once, while the device works on earlier pairs."""

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, TypeVar

from crag_core.context import Lane
from crag_core.errors import CragError, EvaluationFailed, StageUnavailable
from deployments.backends.batching.pair_scorer import PreparedPair

_ITEMS_AT_ONCE = 64
"""Passages handed to the thread in one go: a hand-over costs as much as several passages."""

Item = TypeVar("Item")
"""What a pair is made of, such as a passage of a question."""

Prepared = Sequence[PreparedPair | None]
Prepare = Callable[[Sequence[Item]], Prepared]


@dataclass(slots=True)
class _Order:
    prepare: Prepare[Any]
    items: Sequence[Any]
    prepared: asyncio.Future[Prepared]


class PrepareThread:
    """Runs the scorer's first step off the event loop; like a batch, formed when the thread is free."""

    def __init__(self) -> None:
        self._executor = ThreadPoolExecutor(max_workers=1, thread_name_prefix="prepare")
        self._lanes: dict[Lane, deque[_Order]] = {lane: deque() for lane in Lane}
        self._is_busy = False
        self._is_closed = False

    async def prepare(
        self, prepare: Prepare[Item], items: Sequence[Item], lane: Lane = Lane.INTERACTIVE
    ) -> Prepared:
        """One entry per item, in order, as `prepare` makes them; more urgent lanes go first.

        Raises the scorer's own CragError, else EvaluationFailed, and StageUnavailable once closed.
        """
        order = _Order(prepare, items, asyncio.get_running_loop().create_future())
        self._lanes[lane].append(order)
        self._start()
        return await order.prepared

    def close(self) -> None:
        """Take no more orders; those that wait fail."""
        self._is_closed = True
        self._start()
        self._executor.shutdown(wait=False)

    def _start(self) -> None:
        """Hand the next orders to the thread, if it is free; in a lane, first come, first served."""
        if self._is_closed:
            for waiting in self._lanes.values():
                for order in waiting:
                    _settle(order, StageUnavailable("the retrieval evaluator is shutting down"))
                waiting.clear()
        chosen = [] if self._is_busy else self._next()
        if chosen:
            self._is_busy = True
            done = asyncio.get_running_loop().run_in_executor(self._executor, _prepare_all, chosen)
            done.add_done_callback(lambda done: self._finish(chosen, done.result()))

    def _next(self) -> list[_Order]:
        """Orders of the most urgent lane that has any."""
        chosen: list[_Order] = []
        room = _ITEMS_AT_ONCE
        for waiting in self._lanes.values():
            while waiting and room > 0:
                order = waiting.popleft()
                if not order.prepared.done():  # else its caller has left
                    chosen.append(order)
                    room -= len(order.items)
            if chosen:
                break
        return chosen

    def _finish(self, orders: Sequence[_Order], outcomes: Sequence[Prepared | CragError]) -> None:
        self._is_busy = False
        self._start()
        for order, outcome in zip(orders, outcomes, strict=True):
            _settle(order, outcome)


def _prepare_all(orders: Sequence[_Order]) -> list[Prepared | CragError]:
    return [_outcome(order) for order in orders]


def _outcome(order: _Order) -> Prepared | CragError:
    try:
        prepared = order.prepare(order.items)
    except CragError as error:
        return error
    except BaseException as error:  # a panic in native code too: only this caller may fail
        failed = EvaluationFailed(f"the passages could not be prepared: {error}")
        failed.__cause__ = error
        return failed
    if len(prepared) != len(order.items):
        return EvaluationFailed(f"{len(order.items)} passages were prepared as {len(prepared)} pairs")
    return prepared


def _settle(order: _Order, outcome: Prepared | CragError) -> None:
    if order.prepared.done():
        return
    if isinstance(outcome, CragError):
        order.prepared.set_exception(outcome)
    else:
        order.prepared.set_result(outcome)
