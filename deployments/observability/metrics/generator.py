"""The generator: what its replicas count, and vLLM's own metrics, which it exports through Ray."""

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
    share,
)

IN_FLIGHT = Gauge(
    name="crag_generator_in_flight",
    help="Completions that a replica has taken and not yet ended.",
    panel=Panel(Dashboard.GENERATOR, "Completions in flight"),
)

ABORTED = Counter(
    name="crag_generator_aborted",
    help="Completions aborted on the way: their reader left, or their deadline passed.",
    panel=Panel(Dashboard.GENERATOR, "Completions aborted", at_rest="every reader stayed"),
)

SAVED_TOKENS = Counter(
    name="crag_generator_saved_tokens",
    help="Tokens that aborted completions might still have had.",
    panel=Panel(Dashboard.GENERATOR, "Tokens saved by aborting", at_rest="every reader stayed"),
)

RUNNING = Gauge(
    name="vllm_num_requests_running",
    help="Completions that the engine works on.",
    origin=Origin.FOREIGN,
    panel=Panel(Dashboard.GENERATOR, "Completions running"),
)

WAITING = Gauge(
    name="vllm_num_requests_waiting",
    help="Completions that wait for room in the engine.",
    origin=Origin.FOREIGN,
    panel=Panel(Dashboard.GENERATOR, "Completions waiting"),
)

CACHE_USE = Gauge(
    name="vllm_kv_cache_usage_perc",
    help="Share of the key-value cache in use.",
    unit=Unit.RATIO,
    origin=Origin.FOREIGN,
    across=Across.MAX,
    panel=Panel(Dashboard.GENERATOR, "Fullest key-value cache"),
)

PREEMPTIONS = Counter(
    name="vllm_num_preemptions",
    help="Completions that lost their place in the cache to others and started again.",
    origin=Origin.FOREIGN,
    panel=Panel(Dashboard.GENERATOR, "Preemptions", at_rest="the cache was large enough"),
    alert=Alert(
        "EnginePreempts",
        when="sum(rate(METRIC[10m])) > 0.1",
        for_minutes=10,
        severity=Severity.TICKET,
        summary="The engine's cache is too small for its completions: they are started again.",
    ),
)

PREFIX_QUERIES = Counter(
    name="vllm_prefix_cache_queries",
    help="Prompt tokens looked up in the prefix cache.",
    origin=Origin.FOREIGN,
)

PREFIX_HITS = Counter(
    name="vllm_prefix_cache_hits",
    help="Prompt tokens found in the prefix cache.",
    origin=Origin.FOREIGN,
    panel=Panel(
        Dashboard.GENERATOR,
        "Prompt tokens from the prefix cache",
        queries=(Query(share("METRIC", PREFIX_QUERIES.exported), "hits"),),
        unit=Unit.RATIO,
    ),
)

PROMPT_TOKENS = Counter(
    name="vllm_prompt_tokens",
    help="Prompt tokens read.",
    origin=Origin.FOREIGN,
    panel=Panel(Dashboard.GENERATOR, "Prompt tokens per second"),
)

GENERATED_TOKENS = Counter(
    name="vllm_generation_tokens",
    help="Tokens written.",
    origin=Origin.FOREIGN,
    panel=Panel(Dashboard.GENERATOR, "Completion tokens per second"),
)

FIRST_TOKEN_SECONDS = Histogram(
    name="vllm_time_to_first_token_seconds",
    help="Seconds from a completion's arrival in the engine to its first token.",
    unit=Unit.SECONDS,
    origin=Origin.FOREIGN,
    panel=Panel(Dashboard.GENERATOR, "Seconds to the engine's first token"),
)

TOKEN_SECONDS = Histogram(
    name="vllm_inter_token_latency_seconds",
    help="Seconds between two tokens of a completion.",
    unit=Unit.SECONDS,
    origin=Origin.FOREIGN,
    panel=Panel(Dashboard.GENERATOR, "Seconds between tokens"),
)

QUEUE_SECONDS = Histogram(
    name="vllm_request_queue_time_seconds",
    help="Seconds that a completion waited in the engine.",
    unit=Unit.SECONDS,
    origin=Origin.FOREIGN,
    panel=Panel(Dashboard.GENERATOR, "Seconds in the engine's queue"),
)
