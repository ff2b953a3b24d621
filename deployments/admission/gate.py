"""The gate: lets a request in while what waits before it, in the whole cluster, can be done in time."""

import asyncio
import math
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from crag_core.context import Lane, RequestContext
from crag_core.errors import Overloaded
from deployments.admission.demand import BESIDE, SERVING, Demand
from deployments.admission.latency_curve import LatencyCurve
from deployments.admission.load import Load, Others
from deployments.admission.patience import Patience
from deployments.settings import AdmissionSettings

_TOLERANCE = 0.25
"""A request may always wait for so much of its own time."""
_NO_WAIT_S = 0.1
"""Nobody is turned away for so short a wait."""
_LEAST_PATIENCE_S = 0.5
"""Who leaves sooner has not left for having to wait."""


class Refusal(StrEnum):
    """Why a request is turned away."""

    WAIT = "wait"
    DEADLINE = "deadline"
    IN_FLIGHT = "in_flight"
    RATE = "rate"


class AdmissionObserver(Protocol):
    """Told of requests turned away, and of the gate's view of the cluster."""

    def refused(self, why: Refusal, lane: Lane, retry_after_s: float) -> None: ...

    def sees(self, load: Load, wait_s: Mapping[str, float]) -> None: ...


@dataclass(frozen=True, slots=True)
class Prediction:
    """A request's time if it were admitted now: by itself, and behind what is there."""

    alone_s: float
    waits_s: Mapping[str, float]

    @property
    def wait_s(self) -> float:
        """Seconds of others' work before it, over all stages that it takes."""
        return sum(self.waits_s.values())

    @property
    def seconds(self) -> float:
        """Seconds until its answer."""
        return self.alone_s + self.wait_s

    @property
    def slowest(self) -> str:
        """The stage with the longest queue."""
        return max(self.waits_s, key=lambda stage: self.waits_s[stage], default=SERVING)


@dataclass(slots=True)
class Ticket:
    """One request's admission; whoever holds it says what the request took."""

    loads: Mapping[str, float]
    """The work that each stage held as the request came, its own included."""
    prediction: Prediction
    curves: Mapping[str, LatencyCurve]
    is_answered: bool = False

    def took(self, seconds: Mapping[str, float]) -> None:
        """The request was answered; its stages took so long."""
        self.is_answered = True
        for stage, took_s in seconds.items():
            if stage in self.loads:
                self.curves[stage].observe(self.loads[stage], took_s)

    def ended(self, after_s: float) -> None:
        """The request is over; where it had no answer and is late already, that teaches too.

        Of a server so slow that all its clients leave, no answer would ever tell.
        """
        late_s = after_s - self.prediction.seconds
        if not self.is_answered and late_s > 0:
            stage = self.prediction.slowest
            curve, load = self.curves[stage], self.loads[stage]
            curve.observe(load, curve.seconds(load) + late_s)


class Gate:
    """Admission of one ingress: its own requests counted exactly, those of the others as last heard.

    Speeds are learned from what answers took, so no stage is asked anything on a request's way. With
    nothing else in the cluster every request is admitted, whatever was learned.
    """

    def __init__(
        self,
        settings: AdmissionSettings,
        observer: AdmissionObserver,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._settings, self._observer, self._clock = settings, observer, clock
        self._own = Load()
        self._others = Others()
        self._curves: dict[str, LatencyCurve] = {}
        self._patience = Patience()
        self._refused_at_s = 0.0

    @property
    def ingresses(self) -> int:
        """How many ingresses there are, this one included."""
        return 1 + self._others.ingresses

    @contextmanager
    def admitted(self, ctx: RequestContext, demand: Demand) -> Iterator[Ticket]:
        """Count a request as long as the block runs; raises Overloaded before anything is started."""
        total = Load.total([self._own, self._others.load])
        prediction = self._predict(demand, total)
        if total.requests:
            self._refuse_if_late(ctx, demand, total, prediction)
        loads = {stage: total.demand.get(stage, 0.0) + units for stage, units in demand.items()}
        ticket = Ticket(loads, prediction, self._curves)
        teaches = demand != BESIDE  # what happens beside the answers tells nothing about them
        started_s = self._clock()
        self._own.add(demand)
        try:
            yield ticket
            if teaches:
                self._patience.answered()
        except (asyncio.CancelledError, GeneratorExit):
            age_s = self._clock() - started_s
            if teaches and age_s >= prediction.alone_s:  # else an idle server would be left too
                self._patience.left(age_s)
            raise
        except Overloaded as error:  # a stage's own refusal: when to come back is known here
            if error.retry_after_s is None:
                error.retry_after_s = self._whole(prediction.wait_s)
            raise
        finally:
            self._own.remove(demand)
            if teaches:
                ticket.ended(self._clock() - started_s)

    def load(self) -> Load:
        """This ingress's share of what is in the cluster, for the others."""
        self._own.refused_s = self._refused_s()
        self._refused_at_s = self._clock()
        return self._own

    def heard(self, others: Others) -> None:
        """What the other ingresses hold now."""
        self._others = others
        self._show()

    def lost(self) -> None:
        """The others cannot be heard: until they are, each is taken to hold what this one does."""
        count = self._others.ingresses
        self._others = Others(count, Load.total([self._own] * count))
        self._show()

    def _predict(self, demand: Demand, total: Load) -> Prediction:
        alone_s, waits_s = 0.0, dict[str, float]()
        for stage, units in demand.items():
            curve = self._curves.setdefault(stage, LatencyCurve())
            if curve.is_known:
                own_s = curve.seconds(units)
                alone_s += own_s
                waits_s[stage] = curve.seconds(units + total.demand.get(stage, 0.0)) - own_s
        return Prediction(alone_s, waits_s)

    def _refuse_if_late(
        self, ctx: RequestContext, demand: Demand, total: Load, prediction: Prediction
    ) -> None:
        settings = self._settings
        share = 1.0 if ctx.lane is Lane.INTERACTIVE else settings.batch_share
        most = settings.max_in_flight * share
        may_wait_s = settings.max_wait_s * share
        wait_s, alone_s = prediction.wait_s, prediction.alone_s
        # clients in a great hurry would leave an idle server too: they do not close the gate
        patience_s = max(self._patience.seconds, 2 * alone_s, _LEAST_PATIENCE_S)
        time_s = settings.headroom * min(ctx.remaining_s(), patience_s)
        # one that could not end in time on an idle server may try, but not at the price of others
        room_s = max(time_s - alone_s, _TOLERANCE * alone_s, _NO_WAIT_S)
        queue = f"{prediction.slowest} has work for about {wait_s:.1f} s"
        if total.requests >= most:
            said = f"{total.requests} requests are being answered, and {most:g} may be"
            over_s = 0.0
            why = Refusal.IN_FLIGHT
        elif wait_s > may_wait_s:
            said = f"{queue}, and {may_wait_s:.1f} s are allowed"
            over_s, room_s = wait_s - may_wait_s, may_wait_s
            why = Refusal.WAIT
        elif wait_s > room_s:
            said = f"{queue}, too long for an answer within {time_s:.1f} s"
            over_s = wait_s - room_s
            why = Refusal.DEADLINE
        else:
            return
        retry_after_s = self._turned_away(demand, total, prediction, over_s, room_s)
        self._observer.refused(why, ctx.lane, retry_after_s)
        error = Overloaded(f"{said}: try again in {retry_after_s} s")
        error.retry_after_s = retry_after_s
        raise error

    def _turned_away(
        self, demand: Demand, total: Load, prediction: Prediction, over_s: float, room_s: float
    ) -> int:
        """When there will be room for a request that does not fit by `over_s`.

        Those turned away before it come back before it, as many as there is room for, so each is sent
        a little further off: else all would return at once, and all but a few in vain.
        """
        refused_s = self._refused_s()
        stage = prediction.slowest
        own, held = demand.get(stage, 0.0), total.demand.get(stage, 0.0)
        own_s = self._curves[stage].seconds(own + held) * own / (own + held) if own else 0.0
        self._own.refused_s = min(refused_s + own_s, room_s)
        self._refused_at_s = self._clock()
        return self._whole(over_s + refused_s + self._others.load.refused_s)

    def _whole(self, seconds: float) -> int:
        """Whole seconds, as Retry-After has them, within its limits."""
        return math.ceil(min(max(1.0, seconds), self._settings.max_retry_after_s))

    def _refused_s(self) -> float:
        """Time until those turned away will have had their turn; it passes as time does."""
        return max(0.0, self._own.refused_s - (self._clock() - self._refused_at_s))

    def _show(self) -> None:
        total = Load.total([self._own, self._others.load])
        waits_s = {
            stage: curve.seconds(total.demand.get(stage, 0.0)) - curve.seconds(0.0)
            for stage, curve in self._curves.items()
            if curve.is_known
        }
        self._observer.sees(total, waits_s)
