"""An ingress's gate as metrics."""

from collections.abc import Mapping

from crag_core.context import Lane
from deployments.admission.gate import Refusal
from deployments.admission.load import Load
from deployments.observability.meter import Meter
from deployments.observability.metrics import admission


class AdmissionMetrics:
    """Counts who is turned away; keeps the gate's Protocol `AdmissionObserver`."""

    def __init__(self, meter: Meter) -> None:
        """Records by `meter`."""
        self._meter = meter

    def refused(self, why: Refusal, lane: Lane, retry_after_s: float) -> None:
        """Count a request that was turned away."""
        self._meter.count(admission.REFUSED, why=why, lane=lane)
        self._meter.observe(admission.RETRY_AFTER_SECONDS, retry_after_s, lane=lane)

    def sees(self, load: Load, waits_s: Mapping[str, float]) -> None:
        """Show the cluster as the gate sees it."""
        self._meter.show(admission.ADMITTED, load.requests)
        for stage, wait_s in waits_s.items():
            self._meter.show(admission.PREDICTED_WAIT_SECONDS, wait_s, stage=stage)
