"""What an ingress knows of admission: its gate, the costs that it reckons with, and rates by key."""

from dataclasses import dataclass
from typing import Self

from crag_core.settings import CragSettings
from deployments.admission.demand import Costs
from deployments.admission.gate import AdmissionObserver, Gate
from deployments.admission.key_rates import KeyRates
from deployments.settings import AdmissionSettings


@dataclass(frozen=True, slots=True)
class Admission:
    """Who is let in, and what each request is reckoned to cost."""

    gate: Gate
    costs: Costs
    rates: KeyRates

    @classmethod
    def of(cls, settings: AdmissionSettings, crag: CragSettings, observer: AdmissionObserver) -> Self:
        """That of one ingress, which has let nobody in yet."""
        gate = Gate(settings, observer)
        return cls(gate, Costs(crag), KeyRates(settings, gate, observer))
