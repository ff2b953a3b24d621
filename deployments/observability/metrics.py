"""Every metric of the application, declared once; exported by Ray from each process."""

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Protocol, TypeVar

from ray.util.metrics import Counter, Gauge, Histogram

from crag_core.types import Answer

if TYPE_CHECKING:
    from deployments.api.observing import Observation
    from deployments.backends.batching.batching_stats import BatchingStats

_SECONDS = [0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0]
_NONE = "none"

Label = TypeVar("Label", bound=str)


class BudgetState(Protocol):
    """What the gauges show of a wiki's request budget."""

    @property
    def circuit(self) -> str: ...
    @property
    def tokens(self) -> float: ...
    @property
    def in_flight(self) -> int: ...
    @property
    def waiting(self) -> int: ...


class AnswerMetrics:
    """Counts and times answers; every label comes from a closed set, so that no series grows."""

    def __init__(self) -> None:
        """Declares the metrics in this process."""
        self._answers = Counter(
            "crag_answers",
            description="Answer requests by how they ended.",
            tag_keys=("pipeline", "action", "outcome", "quality"),
        )
        self._answer_seconds = Histogram(
            "crag_answer_seconds",
            description="Seconds from the request's arrival to the end of its answer.",
            boundaries=_SECONDS,
            tag_keys=("pipeline", "outcome"),
        )
        self._first_piece_seconds = Histogram(
            "crag_first_piece_seconds",
            description="Seconds from the request's arrival to the first piece of its answer.",
            boundaries=_SECONDS,
            tag_keys=("pipeline",),
        )
        self._stage_seconds = Histogram(
            "crag_stage_seconds",
            description="Seconds an answer spent in each stage.",
            boundaries=_SECONDS,
            tag_keys=("stage",),
        )
        self._degraded = Counter(
            "crag_degraded",
            description="Rungs of the ladder of cheaper answers that were taken.",
            tag_keys=("stage", "reason"),
        )
        self._tokens = Counter(
            "crag_tokens",
            description="Tokens of prompts and completions.",
            tag_keys=("kind",),
        )
        self._key_requests = Counter(
            "crag_key_requests", description="Answer requests by API key.", tag_keys=("key",)
        )
        self._key_tokens = Counter(
            "crag_key_tokens",
            description="Tokens of prompts and completions by API key.",
            tag_keys=("key", "kind"),
        )
        self._speculated = Counter(
            "crag_speculated",
            description="Work begun before the action was known, by what became of it.",
            tag_keys=("work", "outcome"),
        )

    def answered(self, observation: "Observation") -> None:
        """Record one answer request, however it ended."""
        answer = observation.answer
        pipeline = observation.pipeline or _NONE
        action = answer.action if answer is not None and answer.action else _NONE
        quality = answer.evidence_quality if answer is not None else _NONE
        outcome = observation.outcome
        self._answers.inc(
            tags={"pipeline": pipeline, "action": action, "outcome": outcome, "quality": quality}
        )
        self._answer_seconds.observe(
            observation.seconds, tags={"pipeline": pipeline, "outcome": outcome}
        )
        if observation.first_piece_s is not None:
            self._first_piece_seconds.observe(observation.first_piece_s, tags={"pipeline": pipeline})
        if answer is not None:
            self._record(answer)
        if observation.key_id is not None:
            self._charge(observation.key_id, answer)

    def _charge(self, key_id: str, answer: Answer | None) -> None:
        self._key_requests.inc(tags={"key": key_id})
        for kind, tokens in _tokens_of(answer):
            self._key_tokens.inc(tokens, tags={"key": key_id, "kind": kind})

    def _record(self, answer: Answer) -> None:
        for record in answer.trace.stages:
            self._stage_seconds.observe(record.seconds, tags={"stage": record.stage})
        for rung in answer.degraded:
            self._degraded.inc(tags={"stage": rung.stage, "reason": rung.reason})
        for work, became in answer.trace.speculated.items():
            self._speculated.inc(tags={"work": work, "outcome": became})
        for kind, tokens in _tokens_of(answer):
            self._tokens.inc(tokens, tags={"kind": kind})


def _tokens_of(answer: Answer | None) -> Iterator[tuple[str, int]]:
    """The tokens that an answer cost, by kind; a counter refuses to count none."""
    if answer is not None:
        usage = {"prompt": answer.usage.prompt_tokens, "completion": answer.usage.completion_tokens}
        yield from ((kind, tokens) for kind, tokens in usage.items() if tokens)


class EvaluatorMetrics:
    """Exports what an evaluator's replica counts."""

    def __init__(self) -> None:
        """Declares the metrics in this process."""
        self._batches = _Rising(
            "crag_evaluator_batches", "Batches by what closed them.", tag_keys=("closed",)
        )
        self._pairs = _Rising("crag_evaluator_pairs", "Pairs scored by the model.", tag_keys=("lane",))
        self._queue_seconds = _Rising(
            "crag_evaluator_queue_seconds",
            "Seconds that scored pairs waited for the device, added up.",
            tag_keys=("lane",),
        )
        self._spared = _Rising(
            "crag_evaluator_spared_pairs",
            "Pairs that cost nothing: cached, in flight already, or empty.",
            tag_keys=("why",),
        )
        self._dropped = _Rising(
            "crag_evaluator_dropped_pairs",
            "Waiting pairs dropped before the model saw them.",
            tag_keys=("why",),
        )
        self._tokens = _Rising("crag_evaluator_tokens", "Tokens of the scored pairs.")
        self._room = _Rising("crag_evaluator_budget_tokens", "Tokens that the batches could have held.")
        self._device_seconds = _Rising("crag_evaluator_device_seconds", "Seconds of the device's work.")
        self._rescored = _Rising(
            "crag_evaluator_rescored_pairs", "Pairs computed again in float32, near a threshold."
        )
        self._failed = _Rising("crag_evaluator_failed_pairs", "Pairs that the model could not score.")
        self._bisected = _Rising(
            "crag_evaluator_bisected_batches", "Failed batches that were taken apart."
        )
        self._refused = _Rising(
            "crag_evaluator_refused_requests", "Requests that could not have been scored in time."
        )
        self._waiting = Gauge(
            "crag_evaluator_waiting_pairs", description="Pairs that wait for the device."
        )

    def export(self, stats: "BatchingStats", rescored_pairs: int) -> None:
        """Bring the exported counters up to the replica's."""
        self._batches.by("closed", stats.closed)
        self._pairs.by("lane", stats.pairs)
        self._queue_seconds.by("lane", stats.queue_seconds)
        self._spared.by(
            "why",
            {"cached": stats.cache_hits, "in_flight": stats.coalesced, "empty": stats.empty},
        )
        self._dropped.by("why", {"abandoned": stats.dropped_abandoned, "expired": stats.dropped_expired})
        self._tokens.to(stats.batch_tokens)
        self._room.to(stats.budget_tokens)
        self._device_seconds.to(stats.device_seconds)
        self._rescored.to(rescored_pairs)
        self._failed.to(stats.failed)
        self._bisected.to(stats.bisected)
        self._refused.to(stats.refused)
        self._waiting.set(stats.waiting)


class _Rising:
    """A counter that is told totals rather than steps."""

    def __init__(self, name: str, description: str, tag_keys: tuple[str, ...] = ()) -> None:
        self._counter = Counter(name, description=description, tag_keys=tag_keys)
        self._exported: dict[tuple[str, ...], float] = {}

    def to(self, total: float, **tags: str) -> None:
        key = tuple(tags.values())
        step = total - self._exported.get(key, 0.0)
        if step > 0:
            self._counter.inc(step, tags=tags)
            self._exported[key] = total

    def by(self, label: str, totals: Mapping[Label, float]) -> None:
        for value, total in totals.items():
            self.to(total, **{label: value})


class SearchMetrics:
    """Counts a wiki's request budget; keeps the backends' Protocol `PoolObserver`.

    The labels are words of closed enumerations, and the host, of which an application has one.
    """

    _CIRCUITS = ("closed", "open", "half_open")

    def __init__(self, host: str) -> None:
        """Declares the metrics in this process."""
        self._host = host
        self._requests = Counter(
            "crag_search_requests",
            description="Requests sent to the wiki by how they ended.",
            tag_keys=("host", "outcome"),
        )
        self._retries = Counter(
            "crag_search_retries",
            description="Retries asked for, by whether the retry budget allowed them.",
            tag_keys=("host", "allowed"),
        )
        self._cache = Counter(
            "crag_search_cache",
            description="Queries by what the shared answers gave: hit, negative, stale, miss, joined.",
            tag_keys=("host", "use"),
        )
        self._refused = Counter(
            "crag_search_refused",
            description="Queries that were refused without a request, by reason.",
            tag_keys=("host", "reason"),
        )
        self._wait_seconds = Histogram(
            "crag_search_wait_seconds",
            description="Seconds a request waited for the budget.",
            boundaries=_SECONDS,
            tag_keys=("host",),
        )
        self._left = Gauge(
            "crag_search_budget_left",
            description="Requests that could be sent at once; 0 during a pause.",
            tag_keys=("host",),
        )
        self._in_flight = Gauge(
            "crag_search_in_flight", description="Requests in flight.", tag_keys=("host",)
        )
        self._waiting = Gauge(
            "crag_search_waiting",
            description="Queries that wait for the budget.",
            tag_keys=("host",),
        )
        self._circuit = Gauge(
            "crag_search_circuit",
            description="1 for the state that the circuit is in.",
            tag_keys=("host", "state"),
        )

    def used_cache(self, use: str, times: int = 1) -> None:
        """Count queries by what the shared answers gave."""
        if times:
            self._cache.inc(times, tags={"host": self._host, "use": use})

    def waited(self, seconds: float) -> None:
        """Observe a request's wait for the budget."""
        self._wait_seconds.observe(seconds, tags={"host": self._host})

    def refused(self, reason: str) -> None:
        """Count a query that was refused."""
        self._refused.inc(tags={"host": self._host, "reason": reason})

    def ended(self, outcome: str) -> None:
        """Count a request's end."""
        self._requests.inc(tags={"host": self._host, "outcome": outcome})

    def retried(self, *, allowed: bool) -> None:
        """Count a retry that was asked for."""
        self._retries.inc(tags={"host": self._host, "allowed": "yes" if allowed else "no"})

    def changed(self, state: BudgetState) -> None:
        """Show the budget as it is now."""
        self._left.set(state.tokens, tags={"host": self._host})
        self._in_flight.set(state.in_flight, tags={"host": self._host})
        self._waiting.set(state.waiting, tags={"host": self._host})
        for name in self._CIRCUITS:
            value = 1.0 if name == state.circuit else 0.0
            self._circuit.set(value, tags={"host": self._host, "state": name})
