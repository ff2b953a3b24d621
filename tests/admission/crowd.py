"""A server and its clients in simulated time: what a gate does to goodput."""

import heapq
import itertools
import random
from collections.abc import Callable
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass, field

from crag_core.context import Lane, RequestContext
from crag_core.errors import Overloaded
from crag_core.types import Stage
from deployments.admission.demand import SERVING, Demand
from deployments.admission.gate import Gate, Ticket
from deployments.admission.load import Load, Others
from deployments.settings import AdmissionSettings
from tests.fakes import FakeAdmissionObserver

ANSWER: Demand = {SERVING: 1.0, Stage.EVALUATE: 1.0, Stage.GENERATE: 1.0}


@dataclass(frozen=True, slots=True)
class _Context(RequestContext):
    """A context whose remaining time is that of the simulation."""

    left_s: float = 60.0

    def remaining_s(self) -> float:
        return self.left_s


@dataclass
class Visit:
    """One client's request, from its arrival to whatever became of it."""

    arrived_s: float
    service_s: float
    attempts: int = 0
    admitted_s: float = 0.0
    is_answered: bool = False
    is_gone: bool = False
    ticket: Ticket | None = None
    admission: AbstractContextManager[Ticket] | None = None
    retry_after_s: list[float] = field(default_factory=list)


@dataclass
class Crowd:
    """Clients with patience at a server of so many slots, first come, first served."""

    settings: AdmissionSettings = field(default_factory=AdmissionSettings)
    slots: int = 1
    service_s: float = 0.2
    patience_s: float = 60.0
    tells_deadline: bool = True
    retries: int = 0
    seed: int = 0
    now_s: float = 0.0
    good_s: list[float] = field(default_factory=list)
    refused: int = 0
    gone: int = 0
    most_waiting: int = 0
    visits: list[Visit] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.observer = FakeAdmissionObserver()
        self.gate = Gate(self.settings, self.observer, clock=lambda: self.now_s)
        self._random = random.Random(self.seed)
        self._events: list[tuple[float, int, Callable[[], None]]] = []
        self._order = itertools.count()
        self._queue: list[Visit] = []
        self._busy = 0

    def at(self, time_s: float, event: Callable[[], None]) -> None:
        heapq.heappush(self._events, (time_s, next(self._order), event))

    def arrivals(self, rate_per_s: float, from_s: float, to_s: float) -> None:
        """Independent clients at this rate."""
        time_s = from_s
        while (time_s := time_s + self._random.expovariate(rate_per_s)) < to_s:
            self.burst(1, time_s)

    def burst(self, clients: int, time_s: float) -> None:
        """So many clients at the same moment."""
        for _ in range(clients):
            visit = Visit(time_s, self.service_s * self._random.gammavariate(4.0, 0.25))
            self.visits.append(visit)
            self.at(time_s, lambda visit=visit: self._ask(visit))  # type: ignore[misc]

    def run(self) -> None:
        while self._events:
            self.now_s, _, event = heapq.heappop(self._events)
            event()

    def goodput_per_s(self, from_s: float, to_s: float) -> float:
        return sum(from_s <= time_s < to_s for time_s in self.good_s) / (to_s - from_s)

    def _ask(self, visit: Visit) -> None:
        visit.attempts += 1
        left_s = visit.arrived_s + self.patience_s - self.now_s
        ctx = _Context("r", 0.0, Lane.INTERACTIVE, left_s=left_s if self.tells_deadline else 60.0)
        admission = self.gate.admitted(ctx, ANSWER)
        try:
            visit.ticket = admission.__enter__()
        except Overloaded as error:
            self.refused += 1
            self._turned_away(visit, float(error.retry_after_s or 0.0), left_s)
            return
        visit.admission, visit.admitted_s = admission, self.now_s
        self._queue.append(visit)
        self.most_waiting = max(self.most_waiting, len(self._queue))
        self.at(visit.arrived_s + self.patience_s, lambda: self._gives_up(visit))
        self._serve()

    def _turned_away(self, visit: Visit, retry_after_s: float, left_s: float) -> None:
        visit.retry_after_s.append(retry_after_s)
        if visit.attempts <= self.retries and retry_after_s < left_s:
            self.at(self.now_s + retry_after_s, lambda: self._ask(visit))

    def _serve(self) -> None:
        while self._busy < self.slots and self._queue:
            visit = self._queue.pop(0)
            self._busy += 1
            self.at(self.now_s + visit.service_s, lambda visit=visit: self._served(visit))  # type: ignore[misc]

    def _served(self, visit: Visit) -> None:
        if not visit.is_gone:
            self._busy -= 1
            assert visit.ticket is not None
            visit.ticket.took({Stage.GENERATE: self.now_s - visit.admitted_s})
            self.good_s.append(self.now_s)
            visit.is_answered = True
            self._leave(visit)
        self._serve()

    def _gives_up(self, visit: Visit) -> None:
        if visit.admission is None:
            return
        self.gone += 1
        if visit in self._queue:
            self._queue.remove(visit)
        else:  # its work is cancelled
            self._busy -= 1
        self._leave(visit)
        self._serve()

    def _leave(self, visit: Visit) -> None:
        assert visit.admission is not None
        leaving = None if visit.is_answered else GeneratorExit()
        with suppress(GeneratorExit):
            visit.admission.__exit__(leaving and GeneratorExit, leaving, None)
        visit.admission, visit.is_gone = None, True


def others(requests: int, demand: Demand, ingresses: int = 1) -> Others:
    """What other ingresses hold."""
    load = Load()
    for _ in range(requests):
        load.add(demand)
    return Others(ingresses, load)
