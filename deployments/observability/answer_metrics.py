"""Answers as metrics: recorded once for each answer request, when it has ended."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

from crag_core.types import Action, Answer, Hop, ScoredDocument, Stage, Trace
from deployments.observability.declaring import NONE
from deployments.observability.meter import Meter
from deployments.observability.metrics import answers, compact, decisions, search

if TYPE_CHECKING:
    from deployments.api.observing import Observation


class AnswerMetrics:
    """Counts and times answers, and what they were decided by."""

    def __init__(self, meter: Meter) -> None:
        """Records by `meter`."""
        self._meter = meter

    def answered(self, observation: "Observation") -> None:
        """Record one answer request, however it ended."""
        meter, answer, outcome = self._meter, observation.answer, observation.outcome
        pipeline = observation.pipeline or NONE
        meter.count(
            answers.ANSWERS,
            pipeline=pipeline,
            action=(answer and answer.action) or NONE,
            outcome=outcome,
            quality=answer.evidence_quality if answer else NONE,
        )
        meter.observe(answers.ANSWER_SECONDS, observation.seconds, pipeline=pipeline, outcome=outcome)
        if observation.first_piece_s is not None:
            meter.observe(answers.FIRST_PIECE_SECONDS, observation.first_piece_s, pipeline=pipeline)
        if observation.key_id is not None:
            self._charge(observation.key_id, answer)
        if answer is not None:
            self._record_work(answer)
            self._record_decision(answer)

    def _charge(self, key_id: str, answer: Answer | None) -> None:
        self._meter.count(answers.KEY_REQUESTS, key=key_id)
        for kind, tokens in _tokens_of(answer).items():
            self._meter.count(answers.KEY_TOKENS, tokens, key=key_id, kind=kind)

    def _record_work(self, answer: Answer) -> None:
        meter, usage, pipeline = self._meter, answer.usage, answer.pipeline
        for record in answer.trace.stages:
            meter.observe(answers.STAGE_SECONDS, record.seconds, stage=record.stage)
        for rung in answer.degraded:
            meter.count(answers.DEGRADED, stage=rung.stage, reason=rung.reason)
        if answer.degraded:
            meter.count(answers.DEGRADED_ANSWERS, pipeline=pipeline)
        for work, became in answer.trace.speculated.items():
            meter.count(answers.SPECULATED, work=work, outcome=became)
        for kind, tokens in _tokens_of(answer).items():
            meter.count(answers.TOKENS, tokens, pipeline=pipeline, kind=kind)
        meter.count(answers.COMPLETIONS, usage.llm_calls, pipeline=pipeline, result="ok")
        failed = usage.llm_attempts - usage.llm_calls
        meter.count(answers.COMPLETIONS, failed, pipeline=pipeline, result="failed")
        for hop in answer.trace.hops:
            meter.count(compact.HOPS, result=_result_of(hop))
        if any(record.stage is Stage.SEARCH for record in answer.trace.stages):
            meter.count(search.SEARCHES, result=_search_result(answer))
            meter.count(search.REQUESTS_OF_SEARCHES, answer.trace.search_requests)

    def _record_decision(self, answer: Answer) -> None:
        meter, trace = self._meter, answer.trace
        meter.count(decisions.STRIPS, trace.strips_scored, strips="scored")
        meter.count(decisions.STRIPS, trace.strips_kept, strips="kept")
        if answer.action is None:
            return
        for zone, documents in _zones(trace).items():
            meter.count(decisions.DOCUMENTS, documents, zone=zone)
        margin = _margin(answer.action, trace)
        if margin is not None:
            meter.observe(decisions.BEST_SCORE_MARGIN, margin, action=answer.action)


def _tokens_of(answer: Answer | None) -> Mapping[str, int]:
    if answer is None:
        return {}
    return {"prompt": answer.usage.prompt_tokens, "completion": answer.usage.completion_tokens}


def _result_of(hop: Hop) -> str:
    if hop.answer is not None:
        return "answered"
    return "unresolved" if hop.level is not None else "left_to_synthesis"


def _search_result(answer: Answer) -> str:
    if answer.trace.searched:
        return "found"
    gave_up = any(rung.stage is Stage.SEARCH for rung in answer.degraded)
    return "failed" if gave_up else "nothing"


def _zones(trace: Trace) -> Mapping[str, int]:
    upper, lower = trace.thresholds["upper"], trace.thresholds["lower"]

    def zone(document: ScoredDocument) -> str:
        if document.score is None:
            return "empty"
        if document.score >= upper:
            return "upper"
        return "between" if document.score >= lower else "lower"

    counts = dict.fromkeys(("upper", "between", "lower", "empty"), 0)
    for document in trace.documents:
        counts[zone(document)] += 1
    return counts


def _margin(action: Action, trace: Trace) -> float | None:
    """The best score's distance from the threshold that it is nearest to, by that between both."""
    upper, lower = trace.thresholds["upper"], trace.thresholds["lower"]
    scores = [document.score for document in trace.documents if document.score is not None]
    if not scores or upper <= lower:
        return None
    best = max(scores)
    distance = {
        Action.CORRECT: best - upper,
        Action.AMBIGUOUS: min(upper - best, best - lower),
        Action.INCORRECT: lower - best,
    }[action]
    return max(distance, 0.0) / (upper - lower)
