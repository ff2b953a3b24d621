"""A contest: everyone does the same work in interleaved rounds, and must come to the same replies."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar

Work = TypeVar("Work")
AnyWork = TypeVar("AnyWork", contravariant=True)


@dataclass(frozen=True, slots=True)
class Reply:
    """One reply: `decided` must be equal under any load, `text` when sent one at a time."""

    decided: Any
    text: str = ""


class Contestant(Protocol[AnyWork]):
    """Someone who does the work; `at_once` is how many pieces it is given at a time.

    One that is serial does one after the other all the same, so its replies do not depend on the load.
    """

    @property
    def name(self) -> str: ...
    @property
    def at_once(self) -> int: ...
    @property
    def is_serial(self) -> bool: ...
    def ask(self, works: Sequence[AnyWork], at_once: int) -> list[Reply]:
        """One reply per piece of work, in order. Raises when one fails."""
        ...

    def cpu_s(self) -> float:
        """CPU seconds so far, of all its processes."""
        ...


@dataclass(frozen=True, slots=True)
class Turn:
    """One contestant's part of one round."""

    contestant: str
    number: int
    works: int
    seconds: float
    cpu_s: float
    replies: tuple[Reply, ...]

    @property
    def per_s(self) -> float:
        """Pieces of work per second."""
        return self.works / self.seconds

    @property
    def cpu_ms(self) -> float:
        """CPU milliseconds per piece of work."""
        return 1000 * self.cpu_s / self.works


@dataclass(frozen=True, slots=True)
class Contest(Generic[Work]):
    """Contestants, and the work of the rounds; `tell` is told how far it is."""

    contestants: Sequence[Contestant[Work]]
    tell: Callable[[str], None]

    def hold(self, warm_up: Sequence[Work], rounds: Sequence[Sequence[Work]]) -> list[Turn]:
        """Every contestant's turn in every round, each time in another order.

        Rounds have work of their own, so that nobody finds a reply in a cache.
        """
        for contestant in self.contestants:
            contestant.ask(warm_up, contestant.at_once)
        turns = []
        for number, works in enumerate(rounds):
            shift = number % len(self.contestants)
            for contestant in (*self.contestants[shift:], *self.contestants[:shift]):
                turns.append(turn(contestant, number, works, contestant.at_once))
                self.tell(f"round {number + 1}: {_told(turns[-1])}")
        return turns

    def alone(self, contestant: Contestant[Work], works: Sequence[Work]) -> list[Reply]:
        """The replies when the work is sent one piece at a time."""
        self.tell(f"{contestant.name}: one at a time, for its texts")
        return contestant.ask(works, 1)


def turn(contestant: Contestant[Work], number: int, works: Sequence[Work], at_once: int) -> Turn:
    """Give a contestant so much work at a time, and note what it took."""
    cpu_s, started_s = contestant.cpu_s(), time.perf_counter()
    replies = contestant.ask(works, at_once)
    seconds = time.perf_counter() - started_s
    used_s = contestant.cpu_s() - cpu_s
    return Turn(contestant.name, number, len(works), seconds, used_s, tuple(replies))


def _told(turn: Turn) -> str:
    return f"{turn.contestant}: {turn.per_s:.3g} a second, {turn.cpu_ms:.0f} CPU-ms each"
