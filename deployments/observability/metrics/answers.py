"""What clients get: answers, how good and how fast; and where the time and the tokens went."""

from crag_core.types import Speculated, Speculative
from deployments.observability.declaring import (
    Alert,
    Counter,
    Dashboard,
    Histogram,
    Label,
    Panel,
    Query,
    Severity,
    Unit,
    mean,
    share,
)
from deployments.observability.metrics.labels import (
    ACTION,
    KEY,
    OUTCOME,
    PIPELINE,
    QUALITY,
    REASON,
    SECONDS,
    STAGE,
    TOKEN_KIND,
)

_INCORRECT = (
    'sum(rate(METRIC{action="incorrect"}[1h]%s)) / (sum(rate(METRIC{action!="none"}[1h]%s)) > 0.01)'
)

_OWN_MEAN = share("METRIC_sum", "METRIC_count", ("stage",))

ANSWERS = Counter(
    name="crag_answers",
    help="Answer requests by how they ended.",
    labels=(PIPELINE, ACTION, OUTCOME, QUALITY),
    panel=Panel(Dashboard.OVERVIEW, "Answer requests by outcome", by=("outcome",), stacked=True),
    alert=Alert(
        "ActionMixDrifted",
        when=f"abs({_INCORRECT % ('', '')} - {_INCORRECT % (' offset 1w', ' offset 1w')}) > 0.2",
        for_minutes=30,
        severity=Severity.TICKET,
        summary="The share of questions judged INCORRECT is 20 points from that of a week ago.",
    ),
)

ANSWER_SECONDS = Histogram(
    name="crag_answer_seconds",
    help="Seconds from a request's arrival to the end of its answer.",
    unit=Unit.SECONDS,
    labels=(PIPELINE, OUTCOME),
    buckets=SECONDS,
    panel=Panel(Dashboard.OVERVIEW, "Seconds to the whole answer"),
)

FIRST_PIECE_SECONDS = Histogram(
    name="crag_first_piece_seconds",
    help="Seconds from a request's arrival to the first piece of its answer.",
    unit=Unit.SECONDS,
    labels=(PIPELINE,),
    buckets=SECONDS,
    panel=Panel(Dashboard.OVERVIEW, "Seconds to the first piece"),
)

STAGE_SECONDS = Histogram(
    name="crag_stage_seconds",
    help="Seconds that an answer spent in each stage, waiting included.",
    unit=Unit.SECONDS,
    labels=(STAGE,),
    buckets=SECONDS,
    panel=Panel(
        Dashboard.OVERVIEW,
        "Mean seconds by stage",
        queries=(Query(_OWN_MEAN, "{{stage}}"),),
    ),
)

CALL_SECONDS = Histogram(
    name="crag_call_seconds",
    help="Seconds of a handle call as its caller saw it: routing, the replica's queue, and the work.",
    unit=Unit.SECONDS,
    labels=(STAGE,),
    buckets=SECONDS,
    panel=Panel(
        Dashboard.OVERVIEW,
        "Mean seconds of a handle call",
        queries=(Query(_OWN_MEAN, "{{stage}}"),),
    ),
)

CALLS_FAILED = Counter(
    name="crag_calls_failed",
    help="Handle calls that did not end well; `cancelled` is a caller that left.",
    labels=(STAGE, OUTCOME),
    panel=Panel(
        Dashboard.OVERVIEW,
        "Handle calls that did not end well",
        by=("stage", "outcome"),
        at_rest="every call ended well",
    ),
)

WAIT_SECONDS = Histogram(
    name="crag_wait_seconds",
    help="Seconds that work waited inside its replica: for a batch, for the device, for a lock.",
    unit=Unit.SECONDS,
    labels=(STAGE,),
    buckets=SECONDS,
    panel=Panel(
        Dashboard.OVERVIEW,
        "Seconds in a replica's own queue",
        queries=(
            Query(
                "histogram_quantile(0.9, sum by (le, stage) (rate(METRIC_bucket[$__rate_interval])))",
                "p90 {{stage}}",
            ),
        ),
    ),
    alert=Alert(
        "QueueIsOld",
        when="histogram_quantile(0.9, sum by (le, stage) (rate(METRIC_bucket[5m]))) > 5",
        for_minutes=10,
        severity=Severity.PAGE,
        summary="A tenth of the work waits longer than 5 s inside the replicas of {{ $labels.stage }}.",
    ),
)

_CALL, _WAIT = f"({mean(CALL_SECONDS, ('stage',))})", f"({mean(WAIT_SECONDS, ('stage',))})"
_WORK, _WAIT_OR_NOT = f"({_OWN_MEAN})", f"({_WAIT} or 0 * ({_OWN_MEAN}))"

WORK_SECONDS = Histogram(
    name="crag_work_seconds",
    help="Seconds that a replica worked on a call, without its wait.",
    unit=Unit.SECONDS,
    labels=(STAGE,),
    buckets=SECONDS,
    panel=Panel(
        Dashboard.OVERVIEW,
        "A handle call taken apart: on the way, waiting, working",
        queries=(
            Query(
                f"{_CALL} - on (stage) {_WORK} - on (stage) ({_WAIT} or 0 * {_WORK})", "way {{stage}}"
            ),
            Query(_WAIT, "waiting {{stage}}"),
            Query(_WORK, "working {{stage}}"),
        ),
        stacked=True,
    ),
)

DEGRADED = Counter(
    name="crag_degraded",
    help="Rungs of the ladder of cheaper answers that were taken.",
    labels=(STAGE, REASON),
    panel=Panel(
        Dashboard.OVERVIEW,
        "What answers gave up",
        by=("stage", "reason"),
        at_rest="nothing was given up",
    ),
)

DEGRADED_ANSWERS = Counter(
    name="crag_degraded_answers",
    help="Answers that gave something up.",
    labels=(PIPELINE,),
    panel=Panel(
        Dashboard.OVERVIEW,
        "Share of degraded answers",
        queries=(Query(share("METRIC", ANSWERS.exported), "degraded"),),
        unit=Unit.RATIO,
        at_rest="nothing was given up",
    ),
    alert=Alert(
        "AnswersDegraded",
        when="sum(rate(METRIC[15m]))"
        f' / (sum(rate({ANSWERS.exported}{{outcome="ok"}}[15m])) > 0.01) > 0.25',
        for_minutes=15,
        severity=Severity.TICKET,
        summary="More than a quarter of the answers gave something up.",
    ),
)

TOKENS = Counter(
    name="crag_tokens",
    help="Tokens of prompts and completions.",
    labels=(PIPELINE, TOKEN_KIND),
    panel=Panel(Dashboard.GENERATOR, "Tokens per second, by kind", by=("kind",)),
)

COMPLETIONS = Counter(
    name="crag_completions",
    help="Completions asked of the generator for an answer, by whether they could be used.",
    labels=(PIPELINE, Label.of("result", ("ok", "failed"))),
    panel=Panel(
        Dashboard.GENERATOR,
        "Completions per answer",
        queries=(
            Query(
                "sum by (pipeline) (rate(METRIC[$__rate_interval])) / (sum by (pipeline)"
                f' (rate({ANSWERS.exported}{{outcome="ok"}}[$__rate_interval])) > 0)',
                "{{pipeline}}",
            ),
        ),
        unit=Unit.COUNT,
    ),
)

KEY_REQUESTS = Counter(
    name="crag_key_requests",
    help="Answer requests by API key.",
    labels=(KEY,),
    panel=Panel(Dashboard.OVERVIEW, "Answer requests by key", by=("key",), at_rest="no keys are in use"),
)

KEY_TOKENS = Counter(
    name="crag_key_tokens",
    help="Tokens of prompts and completions by API key.",
    labels=(KEY, TOKEN_KIND),
    panel=Panel(Dashboard.OVERVIEW, "Tokens by key", by=("key",), at_rest="no keys are in use"),
)

SPECULATED = Counter(
    name="crag_speculated",
    help="Work begun before the action was known, by what became of it.",
    labels=(Label.of("work", Speculative), Label.of("outcome", Speculated)),
    panel=Panel(
        Dashboard.EVALUATOR,
        "Work begun ahead",
        by=("work", "outcome"),
        at_rest="speculation is off",
    ),
)
