"""Replies read as their client would: an answer, a ranking, a stream, or something broken."""

import json
import math
import re
from array import array
from dataclasses import dataclass, field
from typing import Any

from benchmarks.load.outcomes import Outcome

_NAME = re.compile(r"[a-z0-9_]{1,40}")
_ADDITIVITY = 1e-3
_MAX_STAGES = 32
_MAX_GAPS = 8192
_MAX_LINE_BYTES = 1024 * 1024


@dataclass(slots=True)
class Reading:
    """What a reply said; times are on the clock of the connection."""

    outcome: Outcome = Outcome.BAD_ANSWER
    code: str = ""
    first_s: float | None = None
    gaps_s: "array[float]" = field(default_factory=lambda: array("f"))
    action: str = ""
    degraded: tuple[str, ...] = ()
    stages: tuple[tuple[str, float], ...] = ()
    stages_cover_s: float = 0.0
    completion_tokens: int = 0


def read_refusal(status: int, body: bytes) -> Reading:
    """A reply whose status is not 200, with the code of its error body where it has one."""
    match status:
        case 429:
            outcome = Outcome.SHED
        case 504:
            outcome = Outcome.TIMED_OUT
        case _ if 400 <= status < 500:
            outcome = Outcome.REFUSED
        case _ if status >= 500:
            outcome = Outcome.FAILED
        case _:  # a redirect, or a success that is no answer: neither is followed nor counted as one
            outcome = Outcome.BAD_ANSWER
    return Reading(outcome, _error_code(_parsed(body)) or f"http_{status}")


def read_answer(body: bytes) -> Reading:
    """The reply of `/v1/answer`."""
    reply = _parsed(body)
    if not isinstance(reply, dict) or not isinstance(reply.get("answer"), str):
        return Reading(code="not_an_answer")
    reading = Reading(Outcome.OK)
    _read_details(reading, reply)
    return reading


def read_completion(body: bytes) -> Reading:
    """The reply of `/v1/chat/completions`, not streamed."""
    reply = _parsed(body)
    try:
        choice = reply["choices"][0]
        whole = isinstance(choice["message"]["content"], str) and bool(choice["finish_reason"])
    except (KeyError, IndexError, TypeError):
        whole = False
    if not whole:
        return Reading(code="not_a_completion")
    reading = Reading(Outcome.OK)
    _read_usage(reading, reply.get("usage"))
    _read_details(reading, reply.get("crag"))
    return reading


def read_ranking(body: bytes) -> Reading:
    """The reply of `/v1/rerank`."""
    reply = _parsed(body)
    try:
        scores = [result["relevance_score"] for result in reply["results"]]
    except (KeyError, TypeError):
        return Reading(code="not_a_ranking")
    if not all(score is None or _is_number(score) for score in scores):
        return Reading(code="not_a_ranking")
    return Reading(Outcome.OK)


def read_explanation(body: bytes) -> Reading:
    """The reply of `/v1/explain`, whose values must add up to its score."""
    reply = _parsed(body)
    try:
        added = reply["base_value"] + sum(token["value"] for token in reply["tokens"])
        whole = abs(added - reply["score"]) <= _ADDITIVITY * max(1.0, abs(reply["score"]))
    except (KeyError, TypeError):
        return Reading(code="not_an_explanation")
    return Reading(Outcome.OK) if whole else Reading(code="does_not_add_up")


class StreamReading:
    """Server-sent events of a chat completion, read piece by piece."""

    def __init__(self) -> None:
        """Nothing has come yet."""
        self._reading = Reading(Outcome.BROKEN_STREAM)
        self._buffer = bytearray()
        self._last_s: float | None = None
        self._is_finished = self._is_done = False

    def took(self, data: bytes, at_s: float) -> None:
        """More bytes; whatever stands in whole lines is read now."""
        self._buffer += data
        *lines, rest = bytes(self._buffer).split(b"\n")
        self._buffer[:] = rest
        if len(rest) > _MAX_LINE_BYTES:
            self._buffer.clear()
            self._reading.code = self._reading.code or "line_too_long"
        for line in lines:
            if line.startswith(b"data:"):
                self._event(line[5:].strip(), at_s)

    def ended(self, cut: bool = False) -> Reading:
        """What the stream was: whole only with a finish, `[DONE]`, and no error on the way."""
        if not self._reading.code:
            if cut:
                self._reading.code = "cut"
            elif not self._is_done:
                self._reading.code = "no_done"
            elif not self._is_finished:
                self._reading.code = "no_finish"
            else:
                degraded = bool(self._reading.degraded)
                self._reading.outcome = Outcome.DEGRADED if degraded else Outcome.OK
        return self._reading

    def _event(self, data: bytes, at_s: float) -> None:
        if data == b"[DONE]":
            self._is_done = True
            return
        chunk = _parsed(data)
        if not isinstance(chunk, dict):
            self._reading.code = self._reading.code or "not_json"
            return
        if "error" in chunk:
            self._reading.code = _error_code(chunk) or "error"
            return
        choices = chunk.get("choices")
        if isinstance(choices, list) and choices and isinstance(choices[0], dict):
            delta = choices[0].get("delta")
            if isinstance(delta, dict) and delta.get("content"):
                self._piece(at_s)
            self._is_finished = self._is_finished or bool(choices[0].get("finish_reason"))
        _read_usage(self._reading, chunk.get("usage"))
        _read_details(self._reading, chunk.get("crag"), keep_outcome=True)

    def _piece(self, at_s: float) -> None:
        if self._last_s is None:
            self._reading.first_s = at_s
        elif len(self._reading.gaps_s) < _MAX_GAPS:
            self._reading.gaps_s.append(at_s - self._last_s)
        self._last_s = at_s


def _read_details(reading: Reading, details: Any, *, keep_outcome: bool = False) -> None:
    """Action, rungs, tokens and stages; a server of another kind has none of them."""
    if not isinstance(details, dict):
        return
    reading.action = _name(details.get("action"))
    rungs = details.get("degraded")
    if isinstance(rungs, list):
        reasons = (_name(rung.get("reason")) for rung in rungs if isinstance(rung, dict))
        reading.degraded = tuple(dict.fromkeys(reason for reason in reasons if reason))
    if reading.degraded and not keep_outcome:
        reading.outcome = Outcome.DEGRADED
    _read_usage(reading, details.get("usage"))
    trace = details.get("trace")
    stages = trace.get("stages") if isinstance(trace, dict) else None
    known = stages[:_MAX_STAGES] if isinstance(stages, list) else []
    spans = [span for stage in known if (span := _span(stage))]
    reading.stages = tuple((name, seconds) for name, _, seconds in spans)
    reading.stages_cover_s = _covered_s(spans)


def _span(stage: Any) -> tuple[str, float, float] | None:
    if not isinstance(stage, dict):
        return None
    name, times = _name(stage.get("stage")), (stage.get("started_s", 0.0), stage.get("seconds"))
    if not name or not all(map(_is_number, times)):
        return None
    started_s, seconds = map(float, times)
    return name, started_s, seconds


def _covered_s(spans: list[tuple[str, float, float]]) -> float:
    """Seconds in which some stage ran: those that run side by side count once."""
    covered_s, until_s = 0.0, -math.inf
    for _, started_s, seconds in sorted(spans, key=lambda span: span[1]):
        ended_s = started_s + seconds
        covered_s += max(0.0, ended_s - max(started_s, until_s))
        until_s = max(until_s, ended_s)
    return covered_s


def _read_usage(reading: Reading, usage: Any) -> None:
    tokens = usage.get("completion_tokens") if isinstance(usage, dict) else None
    if isinstance(tokens, int) and 0 <= tokens < 1_000_000:
        reading.completion_tokens = tokens


def _parsed(body: bytes) -> Any:
    try:
        return json.loads(body)
    except (ValueError, RecursionError):
        return None


def _error_code(reply: Any) -> str:
    error = reply.get("error") if isinstance(reply, dict) else None
    return _name(error.get("code")) if isinstance(error, dict) else ""


def _name(value: Any) -> str:
    """A server's word, if it is one: it becomes a label, a row and a column."""
    return value if isinstance(value, str) and _NAME.fullmatch(value) else ""


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
