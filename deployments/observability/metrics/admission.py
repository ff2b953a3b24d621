"""Admission: who was turned away and why, and how long the queue in the cluster is."""

from crag_core.types import Stage
from deployments.admission.demand import SERVING
from deployments.admission.gate import Refusal
from deployments.observability.declaring import (
    Across,
    Alert,
    Counter,
    Dashboard,
    Gauge,
    Histogram,
    Label,
    Panel,
    Severity,
    Unit,
)
from deployments.observability.metrics.labels import LANE

_WHY = Label.of("why", Refusal)
_QUEUE = Label.of("stage", (*Stage, SERVING))

REFUSED = Counter(
    name="crag_refused",
    help="Requests turned away before anything was started, by limit and lane.",
    labels=(_WHY, LANE),
    panel=Panel(
        Dashboard.OVERVIEW, "Requests turned away", by=("why", "lane"), at_rest="there was room for all"
    ),
    alert=Alert(
        "TurnsManyAway",
        when="sum(rate(METRIC[10m])) / (sum(rate(ray_crag_answers_total[10m])) > 0.05) > 0.2",
        for_minutes=15,
        severity=Severity.PAGE,
        summary="A fifth of the requests is turned away: the slowest stage needs replicas.",
    ),
)

RETRY_AFTER_SECONDS = Histogram(
    name="crag_retry_after_seconds",
    help="Retry-After of the requests turned away.",
    unit=Unit.SECONDS,
    labels=(LANE,),
    buckets=(1.0, 2.0, 3.0, 5.0, 10.0, 20.0, 30.0, 60.0),
    panel=Panel(Dashboard.OVERVIEW, "Retry-After", at_rest="there was room for all"),
)

ADMITTED = Gauge(
    name="crag_admitted_requests",
    help="Requests admitted and not yet ended in the whole cluster, as each ingress sees it.",
    across=Across.MAX,
    panel=Panel(Dashboard.OVERVIEW, "Requests in the cluster"),
)

PREDICTED_WAIT_SECONDS = Gauge(
    name="crag_predicted_wait_seconds",
    help="Predicted wait of a new request for a stage behind what is admitted.",
    unit=Unit.SECONDS,
    labels=(_QUEUE,),
    across=Across.MAX,
    panel=Panel(Dashboard.OVERVIEW, "Predicted wait", by=("stage",)),
)
