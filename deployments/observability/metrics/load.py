"""The load generator's own view; it runs outside Ray."""

from deployments.observability.declaring import (
    Across,
    Counter,
    Dashboard,
    Gauge,
    Histogram,
    Label,
    Origin,
    Panel,
    Unit,
)

_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120)
_BACKGROUND = Label.of("background", ("true", "false"))
_KIND = Label("kind", at_most=8)

REQUESTS = Counter(
    name="crag_load_requests",
    help="Requests that ended.",
    labels=(Label("outcome", at_most=16), _KIND, _BACKGROUND),
    origin=Origin.COMMAND,
    panel=Panel(Dashboard.LOAD, "Requests by outcome", by=("outcome",), stacked=True),
)

LATENCY_SECONDS = Histogram(
    name="crag_load_latency_seconds",
    help="From when it was due to the whole answer.",
    unit=Unit.SECONDS,
    labels=(_KIND, _BACKGROUND),
    buckets=_SECONDS,
    origin=Origin.COMMAND,
    panel=Panel(Dashboard.LOAD, "Seconds to the whole answer"),
)

FIRST_TOKEN_SECONDS = Histogram(
    name="crag_load_first_token_seconds",
    help="From when it was due to the first token.",
    unit=Unit.SECONDS,
    buckets=_SECONDS,
    origin=Origin.COMMAND,
    panel=Panel(Dashboard.LOAD, "Seconds to the first token", at_rest="nothing was streamed"),
)

LATENESS_SECONDS = Histogram(
    name="crag_load_lateness_seconds",
    help="How much later than due it was sent.",
    unit=Unit.SECONDS,
    buckets=_SECONDS,
    origin=Origin.COMMAND,
    panel=Panel(Dashboard.LOAD, "Seconds sent late"),
)

IN_FLIGHT = Gauge(
    name="crag_load_in_flight",
    help="Requests in flight.",
    origin=Origin.COMMAND,
    panel=Panel(Dashboard.LOAD, "Requests in flight"),
)

OFFERED = Gauge(
    name="crag_load_offered_per_second",
    help="The rate that is to be sent.",
    unit=Unit.PER_SECOND,
    origin=Origin.COMMAND,
    panel=Panel(Dashboard.LOAD, "Requests per second, as planned"),
)

BUSY = Gauge(
    name="crag_load_busy_ratio",
    help="CPU use of the busiest sending process.",
    unit=Unit.RATIO,
    across=Across.MAX,
    origin=Origin.COMMAND,
    panel=Panel(Dashboard.LOAD, "The busiest sending process"),
)
