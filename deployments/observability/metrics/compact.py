"""CompactRAG: plans, hops, and the promise of two completions."""

from deployments.observability.declaring import (
    Counter,
    Dashboard,
    Label,
    Panel,
    Query,
    Unit,
    share,
)
from deployments.observability.metrics.answers import (
    ANSWER_SECONDS,
    ANSWERS,
    COMPLETIONS,
    DEGRADED,
    STAGE_SECONDS,
    TOKENS,
)

HOPS = Counter(
    name="crag_hops",
    help="Sub-questions by how they were resolved.",
    labels=(Label.of("result", ("answered", "unresolved", "left_to_synthesis")),),
    panel=Panel(Dashboard.COMPACT, "Hops by result", by=("result",), stacked=True),
)

_OF = 'pipeline="compact"'
_STAGES = 'stage=~"decompose|rewrite|retrieve_pairs|extract"'
_BY_STAGE = f"sum by (stage) (rate({STAGE_SECONDS.exported}_%s{{{_STAGES}}}[$__rate_interval]))"

QUESTIONS = Panel(
    Dashboard.COMPACT,
    "Questions by outcome",
    queries=(
        Query(f"sum by (outcome) (rate({ANSWERS.exported}{{{_OF}}}[$__rate_interval]))", "{{outcome}}"),
    ),
    unit=Unit.PER_SECOND,
    stacked=True,
)

HOPS_PER_QUESTION = Panel(
    Dashboard.COMPACT,
    "Hops per question",
    queries=(Query(share(HOPS.exported, f'{ANSWERS.exported}{{{_OF},outcome="ok"}}'), "hops"),),
    unit=Unit.COUNT,
)

COMPLETIONS_PER_QUESTION = Panel(
    Dashboard.COMPACT,
    "Completions per question",
    queries=(
        Query(
            share(f"{COMPLETIONS.exported}{{{_OF}}}", f'{ANSWERS.exported}{{{_OF},outcome="ok"}}'),
            "completions",
        ),
    ),
    unit=Unit.COUNT,
    help="Two, whatever the number of hops; more are retries.",
)

TOKENS_PER_QUESTION = Panel(
    Dashboard.COMPACT,
    "Tokens per question",
    queries=(
        Query(
            share(f"{TOKENS.exported}{{{_OF}}}", f'{ANSWERS.exported}{{{_OF},outcome="ok"}}'), "tokens"
        ),
    ),
    unit=Unit.COUNT,
)

SECONDS_OF_STAGES = Panel(
    Dashboard.COMPACT,
    "Mean seconds by stage",
    queries=(Query(f"{_BY_STAGE % 'sum'} / ({_BY_STAGE % 'count'} > 0)", "{{stage}}"),),
    unit=Unit.SECONDS,
)

SECONDS_OF_QUESTIONS = Panel(
    Dashboard.COMPACT,
    "Seconds to the whole answer",
    queries=tuple(
        Query(
            f"histogram_quantile({quantile}, sum by (le)"
            f" (rate({ANSWER_SECONDS.exported}_bucket{{{_OF}}}[$__rate_interval])))",
            f"p{quantile * 100:.0f}",
        )
        for quantile in (0.5, 0.9, 0.99)
    ),
    unit=Unit.SECONDS,
)

GIVEN_UP = Panel(
    Dashboard.COMPACT,
    "What plans and hops gave up",
    queries=(
        Query(
            f"sum by (reason) (rate({DEGRADED.exported}{{{_STAGES}}}[$__rate_interval]))", "{{reason}}"
        ),
    ),
    unit=Unit.PER_SECOND,
    at_rest="nothing was given up",
)
