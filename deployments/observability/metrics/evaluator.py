"""The evaluator's replicas: batches, their fill, and how long pairs wait for the device."""

from deployments.observability.declaring import (
    Alert,
    Counter,
    Dashboard,
    Gauge,
    Label,
    Panel,
    Query,
    Severity,
    Unit,
    share,
)
from deployments.observability.metrics.labels import LANE

BATCHES = Counter(
    name="crag_evaluator_batches",
    help="Batches by what closed them.",
    labels=(Label.of("closed", ("took_all", "tokens", "quantum", "overdue")),),
    panel=Panel(Dashboard.EVALUATOR, "Batches by what closed them", by=("closed",), stacked=True),
)

PAIRS = Counter(
    name="crag_evaluator_pairs",
    help="Pairs scored by the model.",
    labels=(LANE,),
    panel=Panel(Dashboard.EVALUATOR, "Pairs per second", by=("lane",), stacked=True),
)

PAIRS_PER_BATCH = Panel(
    Dashboard.EVALUATOR,
    "Pairs per batch",
    queries=(Query(share(PAIRS.exported, BATCHES.exported), "pairs"),),
    unit=Unit.COUNT,
)

QUEUE_SECONDS = Counter(
    name="crag_evaluator_queue_seconds",
    help="Seconds that scored pairs waited for the device, added up.",
    unit=Unit.SECONDS,
    labels=(LANE,),
    panel=Panel(
        Dashboard.EVALUATOR,
        "Mean wait of a pair",
        queries=(Query(share("METRIC", PAIRS.exported, ("lane",)), "{{lane}}"),),
        unit=Unit.SECONDS,
    ),
)

SPARED = Counter(
    name="crag_evaluator_spared_pairs",
    help="Pairs that cost nothing: cached, in flight already, or empty.",
    labels=(Label.of("why", ("cached", "in_flight", "empty")),),
    panel=Panel(
        Dashboard.EVALUATOR, "Pairs that cost nothing", by=("why",), at_rest="no pair came twice"
    ),
)

DROPPED = Counter(
    name="crag_evaluator_dropped_pairs",
    help="Waiting pairs dropped before the model saw them.",
    labels=(Label.of("why", ("abandoned", "expired")),),
    panel=Panel(
        Dashboard.EVALUATOR,
        "Waiting pairs dropped",
        by=("why",),
        at_rest="nobody left and nothing expired",
    ),
)

BUDGET_TOKENS = Counter(
    name="crag_evaluator_budget_tokens",
    help="Tokens that the batches could have held.",
)

TOKENS = Counter(
    name="crag_evaluator_tokens",
    help="Tokens of the scored pairs.",
    panel=Panel(Dashboard.EVALUATOR, "Tokens per second"),
)

FILL = Panel(
    Dashboard.EVALUATOR,
    "Fill of the batches",
    queries=(Query(share(TOKENS.exported, BUDGET_TOKENS.exported), "fill"),),
    unit=Unit.RATIO,
    help="Tokens by those that the batches could have held; full only under load.",
)

PADDING_TOKENS = Counter(
    name="crag_evaluator_padding_tokens",
    help="Tokens of no pair that the device worked on, to make inputs of one length.",
    panel=Panel(
        Dashboard.EVALUATOR,
        "Padding by tokens of pairs",
        queries=(Query(share("METRIC", TOKENS.exported), "padding"),),
        unit=Unit.RATIO,
        at_rest="the evaluator packs its pairs, or all are of one length",
    ),
)

DEVICE_SECONDS = Counter(
    name="crag_evaluator_device_seconds",
    help="Seconds of the device's work.",
    unit=Unit.SECONDS,
    panel=Panel(Dashboard.EVALUATOR, "Devices at work"),
)

RESCORED = Counter(
    name="crag_evaluator_rescored_pairs",
    help="Pairs computed again in float32, near a threshold.",
    panel=Panel(
        Dashboard.EVALUATOR,
        "Pairs scored again",
        at_rest="no low precision, or no score near a threshold",
    ),
)

FAILED = Counter(
    name="crag_evaluator_failed_pairs",
    help="Pairs that the model could not score.",
    panel=Panel(Dashboard.EVALUATOR, "Pairs that failed", at_rest="none failed"),
    alert=Alert(
        "EvaluatorPairsFail",
        when="sum(increase(METRIC[15m])) > 10",
        for_minutes=5,
        severity=Severity.TICKET,
        summary="The evaluator could not score more than 10 pairs in 15 minutes.",
    ),
)

BISECTED = Counter(
    name="crag_evaluator_bisected_batches",
    help="Failed batches that were taken apart.",
    panel=Panel(Dashboard.EVALUATOR, "Batches taken apart", at_rest="none failed"),
)

REFUSED = Counter(
    name="crag_evaluator_refused_requests",
    help="Requests that could not have been scored in time.",
    panel=Panel(Dashboard.EVALUATOR, "Requests refused", at_rest="there was time for all"),
)

WAITING = Gauge(
    name="crag_evaluator_waiting_pairs",
    help="Pairs that wait for the device.",
    panel=Panel(Dashboard.EVALUATOR, "Pairs waiting"),
)
