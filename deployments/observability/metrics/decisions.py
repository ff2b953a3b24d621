"""What the evaluator's scores decided: the signs of drift."""

from deployments.observability.declaring import (
    Counter,
    Dashboard,
    Histogram,
    Label,
    Panel,
    Query,
    Unit,
)
from deployments.observability.metrics.answers import ANSWERS

DOCUMENTS = Counter(
    name="crag_documents",
    help="Documents of the corpus and of callers, by where their score lies to the two thresholds.",
    labels=(Label.of("zone", ("upper", "between", "lower", "empty")),),
    panel=Panel(Dashboard.EVALUATOR, "Documents by score", by=("zone",), stacked=True),
)

BEST_SCORE_MARGIN = Histogram(
    name="crag_best_score_margin",
    help="How far a question's best score lies from the nearest threshold, by the side it is on, as a"
    " share of the distance between both: small margins are decisions that noise could turn.",
    unit=Unit.RATIO,
    labels=(Label.of("action", ("correct", "ambiguous", "incorrect")),),
    buckets=(0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0),
    panel=Panel(
        Dashboard.EVALUATOR,
        "Share of decisions within 5 % of a threshold",
        queries=(
            Query(
                'sum by (action) (rate(METRIC_bucket{le="0.05"}[$__rate_interval]))'
                " / (sum by (action) (rate(METRIC_count[$__rate_interval])) > 0)",
                "{{action}}",
            ),
        ),
    ),
)

STRIPS = Counter(
    name="crag_strips",
    help="Knowledge strips that were scored, and those of them that were kept.",
    labels=(Label.of("strips", ("scored", "kept")),),
    panel=Panel(Dashboard.EVALUATOR, "Strips per second", by=("strips",)),
)

ACTION_SHARES = Panel(
    Dashboard.OVERVIEW,
    "Answers by action",
    queries=(
        Query(
            f'sum by (action) (rate({ANSWERS.exported}{{action!="none"}}[$__rate_interval]))',
            "{{action}}",
        ),
    ),
    unit=Unit.PER_SECOND,
    stacked=True,
    help="A shift between the actions says that questions, corpus or evaluator have changed.",
)

QUALITY_SHARES = Panel(
    Dashboard.OVERVIEW,
    "Answers by the quality of their evidence",
    queries=(
        Query(
            f'sum by (quality) (rate({ANSWERS.exported}{{outcome="ok"}}[$__rate_interval]))',
            "{{quality}}",
        ),
    ),
    unit=Unit.PER_SECOND,
    stacked=True,
)
