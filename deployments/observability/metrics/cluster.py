"""The processes and nodes beneath: their health, and what Ray and Ray Serve say of them."""

from deployments.observability.declaring import (
    Across,
    Alert,
    Counter,
    Dashboard,
    Gauge,
    Histogram,
    Origin,
    Panel,
    Query,
    Severity,
    Unit,
)
from deployments.observability.metrics.labels import PROCESS

LOOP_LAG_SECONDS = Histogram(
    name="crag_event_loop_lag_seconds",
    help="How much later than due a process's event loop woke up.",
    unit=Unit.SECONDS,
    labels=(PROCESS,),
    buckets=(0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0),
    panel=Panel(
        Dashboard.CLUSTER,
        "Event loop lag, p99",
        queries=(
            Query(
                "histogram_quantile(0.99, sum by (le, process) (rate(METRIC_bucket[$__rate_interval])))",
                "{{process}}",
            ),
        ),
    ),
    alert=Alert(
        "EventLoopLags",
        when="histogram_quantile(0.9, sum by (le, process) (rate(METRIC_bucket[5m]))) > 0.5",
        for_minutes=10,
        severity=Severity.TICKET,
        summary="The event loop of {{ $labels.process }} is blocked for half a second and more.",
    ),
)

RESIDENT_BYTES = Gauge(
    name="crag_resident_bytes",
    help="Resident memory of a process.",
    unit=Unit.BYTES,
    labels=(PROCESS,),
    panel=Panel(Dashboard.CLUSTER, "Resident memory", by=("process",), stacked=True),
)

STARTED = Counter(
    name="crag_started",
    help="Starts of processes; a rise without a deployment is a restart.",
    labels=(PROCESS,),
    panel=Panel(
        Dashboard.CLUSTER,
        "Processes",
        queries=(Query("count by (process) (METRIC)", "{{process}}"),),
        unit=Unit.COUNT,
    ),
    alert=Alert(
        "EngineRestarts",
        when='count(count_over_time(METRIC{process="Generator"}[30m]))'
        ' - (count(METRIC{process="Generator"}) or vector(0)) > 2',
        for_minutes=0,
        severity=Severity.PAGE,
        summary="Replicas of the generator were replaced more than twice in 30 minutes.",
    ),
)

SERIES = Gauge(
    name="crag_series",
    help="Series that a process exports of the application's own metrics.",
    labels=(PROCESS,),
    panel=Panel(Dashboard.CLUSTER, "Series", by=("process",), stacked=True),
    alert=Alert(
        "TooManySeries",
        when="max by (process) (METRIC) > 1000",
        for_minutes=15,
        severity=Severity.TICKET,
        summary="A process of {{ $labels.process }} exports more than 1,000 series.",
    ),
)

SERIES_REFUSED = Counter(
    name="crag_series_refused",
    help="Recordings whose labels were beyond a metric's bounds and became `other`.",
    labels=(PROCESS,),
    panel=Panel(Dashboard.CLUSTER, "Labels beyond their bounds", by=("process",), at_rest="all within"),
)

STATUS = Gauge(
    name="serve_deployment_status",
    help="A deployment's state by number: 1 deploy failed, 2 unhealthy, 3 updating, 4 upscaling,"
    " 5 downscaling, 6 healthy.",
    origin=Origin.FOREIGN,
    across=Across.MIN,
    panel=Panel(Dashboard.CLUSTER, "State of the deployments", by=("deployment",)),
    alert=Alert(
        "ScaleUpBlocked",
        when="min by (deployment) (METRIC) == 4",
        for_minutes=10,
        severity=Severity.TICKET,
        summary="{{ $labels.deployment }} has wanted more replicas for 10 minutes and gets none.",
    ),
)

REPLICA_UP = Gauge(
    name="serve_deployment_replica_healthy",
    help="1 for each replica that is healthy.",
    origin=Origin.FOREIGN,
    panel=Panel(Dashboard.CLUSTER, "Healthy replicas", by=("deployment",)),
)

REPLICA_BUSY = Gauge(
    name="serve_replica_processing_queries",
    help="Calls that replicas work on.",
    origin=Origin.FOREIGN,
    panel=Panel(Dashboard.CLUSTER, "Calls in work", by=("deployment",)),
)

QUEUED = Gauge(
    name="serve_deployment_queued_queries",
    help="Calls that wait for a replica in their caller.",
    origin=Origin.FOREIGN,
    panel=Panel(Dashboard.CLUSTER, "Calls waiting for a replica", by=("deployment",)),
)

SERVED = Counter(
    name="serve_deployment_request_counter",
    help="Calls that replicas took.",
    origin=Origin.FOREIGN,
    panel=Panel(Dashboard.CLUSTER, "Calls per second", by=("deployment",)),
)

NODE_CPU = Gauge(
    name="node_cpu_utilization",
    help="CPU use of a node.",
    unit=Unit.PERCENT,
    origin=Origin.FOREIGN,
    across=Across.MAX,
    panel=Panel(Dashboard.CLUSTER, "CPU by node", by=("ip",)),
)

NODE_MEMORY = Gauge(
    name="node_mem_used",
    help="Memory used on a node.",
    unit=Unit.BYTES,
    origin=Origin.FOREIGN,
    panel=Panel(Dashboard.CLUSTER, "Memory by node", by=("ip",)),
)
