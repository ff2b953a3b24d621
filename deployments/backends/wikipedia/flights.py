"""The queries that somebody is fetching, for those who want the same."""

import asyncio
import secrets
from dataclasses import dataclass, field

from crag_core.context import Lane
from deployments.backends.wikipedia.budget import Known, Refused

_Name = tuple[bytes, Lane]


@dataclass(eq=False, slots=True)
class Flight:
    """A query that somebody is fetching; `landed` is done with what came of it, `None` for nothing."""

    id: int
    key: bytes | None
    lane: Lane
    expires_at_s: float
    is_negative: bool = False
    landed: "asyncio.Future[Known | Refused | None]" = field(
        default_factory=lambda: asyncio.get_running_loop().create_future()
    )

    @property
    def name(self) -> _Name | None:
        """What makes two flights the same; an interactive caller never waits behind a batch."""
        return None if self.key is None else (self.key, self.lane)


class Flights:
    """All flights, by number and by what they fetch."""

    def __init__(self) -> None:
        """Nothing is in flight."""
        self._by_id: dict[int, Flight] = {}
        self._by_name: dict[_Name, Flight] = {}

    def get(self, id: int) -> Flight | None:
        """The flight of this number, unless it has landed."""
        return self._by_id.get(id)

    def to_join(self, key: bytes, lane: Lane) -> Flight | None:
        """A flight that brings what is wanted; a person never waits for a job's."""
        of_people = self._by_name.get((key, Lane.INTERACTIVE))
        return of_people or self._by_name.get((key, lane))

    def begin(self, key: bytes | None, lane: Lane, now_s: float, expires_at_s: float) -> Flight:
        """A new flight; those whose holders are gone are cleared away."""
        for lost in [flight for flight in self._by_id.values() if flight.expires_at_s <= now_s]:
            self.land(lost, None)
        # at random, so that a number of a lost budget means nothing to the next one
        flight = Flight(secrets.randbits(62), key, lane, expires_at_s)
        self._by_id[flight.id] = flight
        if flight.name is not None:
            self._by_name[flight.name] = flight
        return flight

    def land(self, flight: Flight, landed: Known | Refused | None) -> None:
        """End a flight, once: those who have joined get what it brings, `None` for nothing."""
        self._by_id.pop(flight.id, None)
        if flight.name is not None and self._by_name.get(flight.name) is flight:
            del self._by_name[flight.name]
        if not flight.landed.done():
            flight.landed.set_result(landed)
