"""Callers and jobs: who waits for which pairs; a pair that several want is scored once."""

import asyncio
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from typing import NamedTuple

from crag_core.context import Lane
from crag_core.errors import CragError
from crag_core.types import Score
from deployments.backends.batching.cost_model import Load
from deployments.backends.batching.pair_scorer import PreparedPair
from deployments.backends.batching.scored_passage import ScoredPassage


@dataclass(slots=True, eq=False)
class Job:
    """One pair to be scored once, for every caller that wants it.

    `passed_over` counts the batches that went ahead of it, though it stood before some of their pairs;
    `queue_s` is how long it had waited when its batch started.
    """

    pair: PreparedPair
    queued_s: float
    callers: "dict[Caller, None]" = field(default_factory=dict)
    is_running: bool = False
    passed_over: int = 0
    queue_s: float = 0.0


class Place(NamedTuple):
    """Where a score belongs; two texts cut to the same pair differ in `truncated`."""

    position: int
    truncated: bool


@dataclass(slots=True, eq=False)
class Caller:
    """One evaluate call: its urgency, what it still waits for, and what it has so far.

    Pairs are dropped as they are scored, so a caller of 10,000 passages holds few of them at a time.
    """

    lane: Lane
    deadline_s: float
    order: int
    scored: list[ScoredPassage]
    waiting: dict[Hashable, Job] = field(default_factory=dict)
    load: Load = field(default_factory=Load)
    """The load of the waiting pairs."""
    to_come: Load = field(default_factory=Load)
    """An estimate of the load of the passages that are not prepared yet."""
    error: CragError | None = None
    _places: dict[Hashable, list[Place]] = field(default_factory=dict)
    _changed: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def urgency(self) -> tuple[float, int]:
        """Sorts the callers of a lane: earliest deadline first, then in order of arrival."""
        return (self.deadline_s, self.order)

    @property
    def unsettled(self) -> list[Hashable]:
        """Keys of the pairs that have no score yet, waiting or running."""
        return list(self._places)

    @property
    def is_settled(self) -> bool:
        """Whether every pair asked for so far has its score."""
        return not self._places

    def want(self, pair: PreparedPair, position: int) -> None:
        """The score of `pair` belongs at `position`."""
        self._places.setdefault(pair.key, []).append(Place(position, pair.truncated))

    def settle(self, job: Job, score: Score) -> None:
        """A score has come."""
        for position, truncated in self._places.pop(job.pair.key):
            self.scored[position] = ScoredPassage(score, truncated, job.queue_s)
        self._changed.set()

    def fail(self, error: CragError) -> None:
        """The call ends with an error; the first one stays."""
        self.error = self.error or error
        self._changed.set()

    async def until(self, is_reached: Callable[[], bool]) -> None:
        """Wait until scores that come have made it true; raises the error that the call ends with."""
        while self.error is None and not is_reached():
            self._changed.clear()
            await self._changed.wait()
        if self.error is not None:
            raise self.error
