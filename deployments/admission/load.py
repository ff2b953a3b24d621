"""What is in the cluster: how much has been admitted, by stage, and what passes between ingresses."""

from collections.abc import Iterable
from dataclasses import dataclass, field

from deployments.admission.demand import Demand


@dataclass(slots=True)
class Load:
    """Requests admitted and not yet ended, with their demand, and the work that was turned away.

    `refused_s` is the predicted time of requests that were refused and may come back.
    """

    requests: int = 0
    demand: dict[str, float] = field(default_factory=dict)
    refused_s: float = 0.0

    def add(self, demand: Demand) -> None:
        """A request is admitted."""
        self.requests += 1
        self._change(demand, 1.0)

    def remove(self, demand: Demand) -> None:
        """A request has ended; what rounding leaves of an idle stage goes with it."""
        self.requests -= 1
        self._change(demand, -1.0)
        if not self.requests:
            self.demand.clear()

    @classmethod
    def total(cls, loads: Iterable["Load"]) -> "Load":
        """All of them together."""
        total = cls()
        for load in loads:
            total.requests += load.requests
            total.refused_s += load.refused_s
            total._change(load.demand, 1.0)
        return total

    def _change(self, demand: Demand, sign: float) -> None:
        for stage, units in demand.items():
            self.demand[stage] = self.demand.get(stage, 0.0) + sign * units


@dataclass(frozen=True, slots=True)
class Others:
    """What an ingress hears of the other ones: their number, and their load together."""

    ingresses: int = 0
    load: Load = field(default_factory=Load)
