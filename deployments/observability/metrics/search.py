"""Knowledge searching: what it finds, and what is left of a wiki's request budget."""

from deployments.observability.declaring import (
    Across,
    Alert,
    Counter,
    Dashboard,
    Gauge,
    Histogram,
    Label,
    Panel,
    Query,
    Severity,
    Unit,
    share,
)
from deployments.observability.metrics.labels import HOST, SECONDS

_OUTCOME = Label.of(
    "outcome", ("ok", "throttled", "lagging", "unavailable", "blocked", "refused", "abandoned")
)
_REFUSAL = Label.of("reason", ("budget_spent", "throttled", "circuit_open", "timed_out", "failed"))
_NO_WIKI = "no wiki is configured, or nothing was searched there"

SEARCHES = Counter(
    name="crag_searches",
    help="Searches of answers by what they brought.",
    labels=(Label.of("result", ("found", "nothing", "failed")),),
    panel=Panel(Dashboard.SEARCH, "Searches by result", by=("result",), stacked=True),
)

REQUESTS_OF_SEARCHES = Counter(
    name="crag_search_requests_of_answers",
    help="Requests to a source that searches of answers needed.",
    panel=Panel(
        Dashboard.SEARCH,
        "Requests per search",
        queries=(Query(share("METRIC", SEARCHES.exported), "requests"),),
        unit=Unit.COUNT,
        at_rest="nothing was searched but the snapshot, which needs no request",
    ),
)

REQUESTS = Counter(
    name="crag_search_requests",
    help="Requests sent to the wiki by how they ended.",
    labels=(HOST, _OUTCOME),
    panel=Panel(
        Dashboard.SEARCH, "Requests to the wiki", by=("outcome",), stacked=True, at_rest=_NO_WIKI
    ),
    alert=Alert(
        "WikiBlocksUs",
        when='sum by (host) (increase(METRIC{outcome="blocked"}[10m])) > 0',
        for_minutes=0,
        severity=Severity.PAGE,
        summary="{{ $labels.host }} refuses our requests altogether.",
    ),
)

RETRIES = Counter(
    name="crag_search_retries",
    help="Retries asked for, by whether the retry budget allowed them.",
    labels=(HOST, Label.of("allowed", ("yes", "no"))),
    panel=Panel(Dashboard.SEARCH, "Retries", by=("allowed",), at_rest="nothing had to be tried again"),
)

CACHE = Counter(
    name="crag_search_cache",
    help="Queries by what the shared answers gave.",
    labels=(HOST, Label.of("use", ("hit", "negative", "stale", "miss", "joined"))),
    panel=Panel(Dashboard.SEARCH, "Shared answers", by=("use",), stacked=True, at_rest=_NO_WIKI),
)

REFUSED = Counter(
    name="crag_search_refused",
    help="Queries that were refused without a request, by reason.",
    labels=(HOST, _REFUSAL),
    panel=Panel(Dashboard.SEARCH, "Queries refused", by=("reason",), at_rest="none was refused"),
    alert=Alert(
        "SearchBudgetSpent",
        when='sum by (host) (rate(METRIC{reason=~"budget_spent|throttled"}[10m]))'
        f" / (sum by (host) (rate({CACHE.exported}[10m])) > 0) > 0.05",
        for_minutes=10,
        severity=Severity.TICKET,
        summary="More than 5 % of the queries to {{ $labels.host }} found its request budget spent.",
    ),
)

WAIT_SECONDS = Histogram(
    name="crag_search_wait_seconds",
    help="Seconds a request waited for the budget.",
    unit=Unit.SECONDS,
    labels=(HOST,),
    buckets=SECONDS,
    panel=Panel(Dashboard.SEARCH, "Seconds waited for the budget", at_rest=_NO_WIKI),
)

BUDGET_LEFT = Gauge(
    name="crag_search_budget_left",
    help="Requests that could be sent at once; 0 during a pause.",
    labels=(HOST,),
    panel=Panel(Dashboard.SEARCH, "Requests left in the budget", by=("host",), at_rest=_NO_WIKI),
)

IN_FLIGHT = Gauge(
    name="crag_search_in_flight",
    help="Requests in flight.",
    labels=(HOST,),
    panel=Panel(Dashboard.SEARCH, "Requests in flight", by=("host",), at_rest=_NO_WIKI),
)

WAITING = Gauge(
    name="crag_search_waiting",
    help="Queries that wait for the budget.",
    labels=(HOST,),
    panel=Panel(Dashboard.SEARCH, "Queries waiting", by=("host",), at_rest=_NO_WIKI),
)

CIRCUIT = Gauge(
    name="crag_search_circuit",
    help="1 for the state that the circuit is in.",
    unit=Unit.YES_OR_NO,
    labels=(HOST, Label.of("state", ("closed", "open", "half_open"))),
    across=Across.MAX,
    panel=Panel(Dashboard.SEARCH, "Circuit", by=("host", "state"), at_rest=_NO_WIKI),
    alert=Alert(
        "SearchCircuitOpen",
        when='max by (host) (METRIC{state=~"open|half_open"}) > 0',
        for_minutes=5,
        severity=Severity.PAGE,
        summary="{{ $labels.host }} has failed for 5 minutes; answers do without it.",
    ),
)
