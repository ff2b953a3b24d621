"""A run in numbers: exact percentiles over all records, goodput, outcomes, stages, and warnings."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import chain

import numpy as np
import numpy.typing as npt

from benchmarks.load.arrivals import Arrivals
from benchmarks.load.outcomes import Outcome, Record
from benchmarks.load.processes import Ending, Run
from benchmarks.load.settings import LoadSettings, SloSettings
from crag_core.metrics import Proportion

_BINS, _FEWEST_BINS, _BIN_REQUESTS = 60, 10, 20
_LATE_S, _LATE_SHARE = 0.010, 0.05
_BUSY = 0.9
OUTSIDE_STAGES = "outside the stages"
"""What latency no stage accounts for: queues before the first, HTTP, the network, the client."""

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Times:
    """Seconds, by nearest rank over every value: nothing is binned or sampled."""

    count: int
    mean_s: float
    p50_s: float
    p90_s: float
    p99_s: float
    p999_s: float
    max_s: float

    @classmethod
    def of(cls, seconds: Iterable[float]) -> "Times | None":
        """The distribution, or None of nothing."""
        values = np.fromiter(seconds, dtype=np.float64)
        if not values.size:
            return None
        shares = [0.5, 0.9, 0.99, 0.999]
        p50, p90, p99, p999 = np.quantile(values, shares, method="inverted_cdf").tolist()
        return cls(values.size, float(values.mean()), p50, p90, p99, p999, float(values.max()))


@dataclass(frozen=True, slots=True)
class Bin:
    """One stretch of the run, by when requests were due."""

    from_s: float
    due_per_s: float
    good_per_s: float
    failed_per_s: float
    p50_s: float | None
    p90_s: float | None
    p99_s: float | None
    degraded_share: float


@dataclass(frozen=True, slots=True)
class Summary:
    """The measured part of a run; rates are per second of it."""

    measured_s: float
    due: int
    due_per_s: float
    answered_per_s: float
    good_per_s: float
    good: int
    judged: int
    good_share: float
    good_share_interval: tuple[float, float]
    meets_slo: bool | None
    outcomes: dict[str, int]
    codes: dict[str, int]
    latency: Times | None
    service: Times | None
    first_token: Times | None
    inter_token: Times | None
    refusal: Times | None
    lateness: Times | None
    background: Times | None
    background_failures: int
    completion_tokens_per_s: float
    retried: int
    actions: dict[str, int]
    degraded: dict[str, int]
    stages: dict[str, Times]
    bottleneck: str | None
    bins: tuple[Bin, ...]
    unfinished: int
    busy: float
    cpu_ms_per_request: float
    ending: Ending
    is_generator_late: bool
    warnings: tuple[str, ...]


def summarise(run: Run) -> Summary:
    """The summary of a run; what was due during the warm-up is left out of it."""
    settings = run.settings
    from_s = settings.warmup_s
    mine = [record for record in run.records if record.at_s >= from_s]
    measured = [record for record in mine if not record.is_background]
    background = [record for record in mine if record.is_background]
    measured_s = _measured_s(run, measured)
    answered = [record for record in measured if record.outcome.is_answered]
    good = sum(is_good(record, settings.slo) for record in measured)
    judged = [record for record in measured if record.outcome is not Outcome.HUNG_UP]
    share = Proportion(good, len(judged))
    stages = _stages(answered)
    lateness = Times.of(late for record in measured if (late := record.lateness_s) is not None)
    latency = Times.of(record.latency_s for record in answered)
    per_s = 1 / measured_s if measured_s else 0.0
    return Summary(
        measured_s=measured_s,
        due=len(measured),
        due_per_s=len(measured) * per_s,
        answered_per_s=len(answered) * per_s,
        good_per_s=good * per_s,
        good=good,
        judged=len(judged),
        good_share=share.share if judged else 0.0,
        good_share_interval=share.interval if judged else (0.0, 1.0),
        meets_slo=bool(judged) and share.share >= settings.slo.share if settings.slo.is_set else None,
        outcomes=dict(Counter(record.outcome.value for record in measured).most_common()),
        codes=dict(Counter(record.code for record in measured if record.code).most_common(20)),
        latency=latency,
        service=Times.of(late for record in answered if (late := record.service_s) is not None),
        first_token=Times.of(late for r in answered if (late := r.first_token_s) is not None),
        inter_token=Times.of(chain.from_iterable(record.gaps_s for record in answered)),
        refusal=Times.of(r.latency_s for r in measured if r.outcome is Outcome.SHED),
        lateness=lateness,
        background=Times.of(r.latency_s for r in background if r.outcome.is_answered),
        background_failures=sum(not record.outcome.is_answered for record in background),
        completion_tokens_per_s=sum(record.completion_tokens for record in answered) * per_s,
        retried=sum(record.attempts > 1 for record in measured),
        actions=dict(Counter(r.action for r in answered if r.action).most_common()),
        degraded=dict(Counter(chain.from_iterable(r.degraded for r in answered)).most_common()),
        stages={name: times for name, seconds in stages.items() if (times := Times.of(seconds))},
        bottleneck=_longest(stages, len(answered)),
        bins=_bins(measured, settings, measured_s),
        unfinished=0 if run.ending is Ending.COMPLETE else run.in_flight,
        busy=run.busy,
        cpu_ms_per_request=1000 * run.cpu_s / max(1, len(run.records)),
        ending=run.ending,
        is_generator_late=_is_late(lateness, latency),
        warnings=tuple(_warnings(run, measured, lateness, latency)),
    )


def is_good(record: Record, slo: SloSettings) -> bool:
    """Whether a whole answer came within the SLO; without one, whether it came."""
    if not record.outcome.is_answered:
        return False
    if slo.latency_s is not None and record.latency_s > slo.latency_s:
        return False
    first_s = record.first_token_s
    return slo.first_token_s is None or (first_s is not None and first_s <= slo.first_token_s)


def stage_means(records: Iterable[Record]) -> dict[str, float]:
    """Mean seconds of an answer in each stage, whether or not it had that stage."""
    answered = [record for record in records if record.outcome.is_answered and record.stages]
    return {name: sum(seconds) / len(answered) for name, seconds in _stages(answered).items()}


def _stages(answered: Iterable[Record]) -> dict[str, list[float]]:
    """Seconds per stage from the servers' traces, and what lies outside of all of them."""
    stages: dict[str, list[float]] = defaultdict(list)
    for record in answered:
        for name, seconds in record.stages:
            stages[name].append(seconds)
        if record.stages:
            stages[OUTSIDE_STAGES].append(max(0.0, record.latency_s - record.stages_cover_s))
    return stages


def _longest(stages: dict[str, list[float]], answers: int) -> str | None:
    return max(stages, key=lambda name: sum(stages[name]) / answers) if stages else None


def _measured_s(run: Run, measured: Sequence[Record]) -> float:
    """The duration; less where the run was cut short, or its trace or requests ran out before."""
    settings = run.settings
    is_short = run.ending is not Ending.COMPLETE or run.due >= settings.max_requests
    if not measured:
        return 0.0
    last_s = max(record.at_s for record in measured) - settings.warmup_s
    is_short = is_short or settings.arrivals.kind is Arrivals.TRACE
    return max(1e-3, min(settings.duration_s, last_s)) if is_short else settings.duration_s


def _bins(measured: Sequence[Record], settings: LoadSettings, measured_s: float) -> tuple[Bin, ...]:
    if not measured:
        return ()
    # wide enough for some requests each, and never so wide that nothing could be seen to change
    enough_s = min(_BIN_REQUESTS * measured_s / len(measured), measured_s / _FEWEST_BINS)
    width_s = max(1.0, measured_s / _BINS, enough_s)
    groups: dict[int, list[Record]] = defaultdict(list)
    for record in measured:
        groups[int((record.at_s - settings.warmup_s) / width_s)].append(record)
    return tuple(
        _bin(groups.get(number, []), settings.slo, number * width_s, width_s)
        for number in range(max(groups) + 1)
    )


def _bin(records: Sequence[Record], slo: SloSettings, from_s: float, width_s: float) -> Bin:
    answered = [record for record in records if record.outcome.is_answered]
    times = Times.of(record.latency_s for record in answered)
    degraded = sum(record.outcome is Outcome.DEGRADED for record in answered)
    failed = sum(not r.outcome.is_answered and r.outcome is not Outcome.HUNG_UP for r in records)
    return Bin(
        from_s=from_s,
        due_per_s=len(records) / width_s,
        good_per_s=sum(is_good(record, slo) for record in records) / width_s,
        failed_per_s=failed / width_s,
        p50_s=times.p50_s if times else None,
        p90_s=times.p90_s if times else None,
        p99_s=times.p99_s if times else None,
        degraded_share=degraded / len(answered) if answered else 0.0,
    )


def _is_late(lateness: Times | None, latency: Times | None) -> bool:
    allowed_s = max(_LATE_S, _LATE_SHARE * latency.p50_s if latency else 0.0)
    return lateness is not None and lateness.p99_s > allowed_s


def _warnings(
    run: Run, measured: Sequence[Record], lateness: Times | None, latency: Times | None
) -> Iterable[str]:
    if not measured:
        yield "nothing was measured: no request was due, or none of them ended"
        return
    if lateness and _is_late(lateness, latency):
        yield (
            f"the generator was the bottleneck: 1 % of the requests were sent more than "
            f"{1000 * lateness.p99_s:.0f} ms late; use more --processes or --connections, or another "
            "machine (latency counts from when a request was due, so it holds this delay)"
        )
    if run.busy > _BUSY:
        yield f"a sending process used {100 * run.busy:.0f} % of its core: use more --processes"
    if any(record.code == "generator_full" for record in measured):
        yield "requests were not sent because too many were waiting: lower the rate or the time-out"
    outcomes = Counter(record.outcome for record in measured)
    if not any(outcome.is_answered for outcome in outcomes):
        most, times = outcomes.most_common(1)[0]
        code = Counter(record.code for record in measured if record.code).most_common(1)
        named = f" ({code[0][0]})" if code else ""
        yield f"no request was answered: {times} of {len(measured)} ended as {most}{named}"
