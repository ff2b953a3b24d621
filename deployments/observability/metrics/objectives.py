"""What the service promises, and the alerts when a promise is being broken too fast.

A burn rate of 1 spends a month's error budget in a month. Two windows each, a long one that says it
matters and a short one that says it still goes on (Google's SRE workbook, chapter 5).
"""

from crag_core import errors
from deployments.observability.declaring import Alert, Dashboard, Panel, Query, Recording, Severity, Unit
from deployments.observability.metrics.answers import ANSWER_SECONDS, ANSWERS
from deployments.observability.metrics.labels import OK

AVAILABILITY = 0.995
"""Of the answer requests that a client had a right to, so many are answered."""
PROMPTNESS = 0.95
"""Of the answers, so many are whole within PROMPT_WITHIN_S."""
PROMPT_WITHIN_S = 10.0

_FAST, _SLOW = 14.4, 6.0
_WINDOWS = ("5m", "30m", "1h", "6h")

_FAULTS = (
    errors.CragError,
    errors.NotReady,
    errors.StageUnavailable,
    errors.StageTimedOut,
    errors.StageFailed,
    errors.RetrievalFailed,
    errors.EvaluationFailed,
    errors.SearchFailed,
    errors.GenerationFailed,
    errors.MalformedCompletion,
)
"""Ends that are the server's fault; a request shed by 429 has a panel of its own."""

_FAULTY = "|".join(error.code for error in _FAULTS)


def _failed(window: str) -> str:
    counted = f'{ANSWERS.exported}{{outcome=~"{OK}|{_FAULTY}"}}'
    bad = f'{ANSWERS.exported}{{outcome=~"{_FAULTY}"}}'
    return f"(sum(rate({bad}[{window}])) or vector(0)) / (sum(rate({counted}[{window}])) > 0)"


def _late(window: str) -> str:
    in_time = f'{ANSWER_SECONDS.exported}_bucket{{outcome="{OK}",le="{PROMPT_WITHIN_S}"}}'
    whole = f'{ANSWER_SECONDS.exported}_count{{outcome="{OK}"}}'
    return f"1 - sum(rate({in_time}[{window}])) / (sum(rate({whole}[{window}])) > 0)"


FAILED_5M, FAILED_30M, FAILED_1H, FAILED_6H = (
    Recording(f"crag:answers_failed:share{window}", _failed(window)) for window in _WINDOWS
)
LATE_5M, LATE_30M, LATE_1H, LATE_6H = (
    Recording(f"crag:answers_late:share{window}", _late(window)) for window in _WINDOWS
)


def _burns(objective: float, rate: float, *recorded: Recording) -> str:
    limit = f"{rate * (1 - objective):.4g}"
    return " and ".join(f"{share.name} > {limit}" for share in recorded)


FAILED_SHARE = Panel(
    Dashboard.OVERVIEW,
    "Share of answer requests that failed",
    queries=(Query(_failed("$__rate_interval"), "failed"),),
    unit=Unit.RATIO,
    help=f"By the server's fault. The objective allows {1 - AVAILABILITY:.1%} in the long run.",
)

LATE_SHARE = Panel(
    Dashboard.OVERVIEW,
    f"Share of answers later than {PROMPT_WITHIN_S:g} s",
    queries=(Query(_late("$__rate_interval"), "late"),),
    unit=Unit.RATIO,
    help=f"The objective allows {1 - PROMPTNESS:.0%} in the long run.",
)

BURN_RATES = Panel(
    Dashboard.OVERVIEW,
    "Burn rates of the last hour",
    queries=(
        Query(f"{FAILED_1H.name} / {1 - AVAILABILITY:.4g}", "availability"),
        Query(f"{LATE_1H.name} / {1 - PROMPTNESS:.4g}", "promptness"),
    ),
    unit=Unit.COUNT,
    help="At 1 the error budget of a month lasts a month; at 14.4 it lasts two days.",
)

SHED_SHARE = Panel(
    Dashboard.OVERVIEW,
    "Share of answer requests shed",
    queries=(
        Query(
            f'sum(rate({ANSWERS.exported}{{outcome="{errors.Overloaded.code}"}}[$__rate_interval]))'
            f" / (sum(rate({ANSWERS.exported}[$__rate_interval])) > 0)",
            "shed",
        ),
    ),
    unit=Unit.RATIO,
    at_rest="nothing was shed",
)

FAILURES_FAST = Alert(
    "FailuresBurnFast",
    when=_burns(AVAILABILITY, _FAST, FAILED_1H, FAILED_5M),
    for_minutes=2,
    severity=Severity.PAGE,
    summary="At this rate of failures a month's error budget is gone in two days.",
)

FAILURES_SLOW = Alert(
    "FailuresBurnSlowly",
    when=_burns(AVAILABILITY, _SLOW, FAILED_6H, FAILED_30M),
    for_minutes=15,
    severity=Severity.TICKET,
    summary="At this rate of failures a month's error budget is gone in five days.",
)

LATENESS_FAST = Alert(
    "LatenessBurnsFast",
    when=_burns(PROMPTNESS, _FAST, LATE_1H, LATE_5M),
    for_minutes=2,
    severity=Severity.PAGE,
    summary="At this rate of late answers a month's error budget is gone in two days.",
)

LATENESS_SLOW = Alert(
    "LatenessBurnsSlowly",
    when=_burns(PROMPTNESS, _SLOW, LATE_6H, LATE_30M),
    for_minutes=15,
    severity=Severity.TICKET,
    summary="At this rate of late answers a month's error budget is gone in five days.",
)
