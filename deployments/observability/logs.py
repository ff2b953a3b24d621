"""Structured logs: a JSON object a line, and one line for each answer request."""

import json
import logging
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from deployments.observability.metrics.labels import CLIENT_GONE
from deployments.observability.redaction import redacted

if TYPE_CHECKING:
    from deployments.api.observing import Observation

REQUESTS = "deployments.requests"
"""The logger of answer requests."""

_OURS = ("deployments", "crag_core")
_FIELDS = "fields"


class JsonLines(logging.Formatter):
    """A record as one line: time in UTC, level, logger, message, and what else it was given."""

    def format(self, record: logging.LogRecord) -> str:
        """The line."""
        line = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
            **getattr(record, _FIELDS, {}),
        }
        if record.exc_info:
            line["traceback"] = record.exc_text or self.formatException(record.exc_info)
        return json.dumps(line, default=str)


def log_as_json(stream: Any = None) -> None:
    """From now on this process's own loggers write JSON lines to `stream`, or standard error."""
    handler = logging.StreamHandler(stream)
    handler.setFormatter(JsonLines())
    for name in _OURS:
        logger = logging.getLogger(name)
        logger.handlers = [handler]
        logger.setLevel(logging.INFO)
        logger.propagate = False


class RequestLog:
    """Writes one line for each answer request, when it has ended."""

    def __init__(self, *, with_texts: bool) -> None:
        """`with_texts`: the question, the answer and its evidence too, which are people's own words."""
        self._logger = logging.getLogger(REQUESTS)
        self._with_texts = with_texts

    def answered(self, observation: "Observation") -> None:
        """Log one answer request, however it ended."""
        fields = dict(_facts(observation))
        if self._with_texts:
            fields |= dict(_texts(observation))
        ended = "client_gone, 499" if observation.outcome == CLIENT_GONE else observation.outcome
        self._logger.info("answer request: %s", ended, extra={_FIELDS: fields})


def _facts(observation: "Observation") -> Iterator[tuple[str, Any]]:
    yield "request_id", observation.request_id
    yield "outcome", observation.outcome
    yield "pipeline", observation.pipeline
    yield "lane", observation.lane
    if observation.key_id is not None:
        yield "key", observation.key_id
    yield "seconds", round(observation.seconds, 4)
    if observation.first_piece_s is not None:
        yield "first_piece_s", round(observation.first_piece_s, 4)
    answer = observation.answer
    if answer is None:
        return
    yield "action", answer.action
    yield "evidence_quality", answer.evidence_quality
    yield "degraded", [f"{rung.stage}: {rung.reason}" for rung in answer.degraded]
    yield (
        "stages",
        [
            {
                "stage": record.stage,
                "started_s": round(record.started_s, 4),
                "seconds": round(record.seconds, 4),
            }
            for record in answer.trace.stages
        ],
    )
    yield "prompt_tokens", answer.usage.prompt_tokens
    yield "completion_tokens", answer.usage.completion_tokens
    yield "llm_calls", answer.usage.llm_calls
    yield "search_requests", answer.trace.search_requests
    yield "evaluator", answer.trace.evaluator_id


def _texts(observation: "Observation") -> Iterator[tuple[str, Any]]:
    if observation.question is not None:
        yield "question", redacted(observation.question)
    if observation.answer is not None:
        yield "answer", redacted(observation.answer.text)
        yield (
            "evidence",
            [
                {"document": citation.document_id, "text": redacted(citation.text)}
                for citation in observation.answer.citations
            ],
        )
