"""Every metric of the application, declared once; exported by Ray from each process."""

from ray.util.metrics import Counter, Histogram

from crag_core.types import Answer
from deployments.api.observing import Observation

_SECONDS = [0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0]
_NONE = "none"


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

    def answered(self, observation: Observation) -> None:
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

    def _record(self, answer: Answer) -> None:
        for record in answer.trace.stages:
            self._stage_seconds.observe(record.seconds, tags={"stage": record.stage})
        for rung in answer.degraded:
            self._degraded.inc(tags={"stage": rung.stage, "reason": rung.reason})
        for kind, tokens in (
            ("prompt", answer.usage.prompt_tokens),
            ("completion", answer.usage.completion_tokens),
        ):
            if tokens:
                self._tokens.inc(tokens, tags={"kind": kind})
