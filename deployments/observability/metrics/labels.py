"""Labels that several metrics share; each takes its values from a closed set."""

from collections.abc import Iterator

from crag_core.context import Lane
from crag_core.errors import CragError
from crag_core.types import Action, EvidenceQuality, PipelineName, Reason, Stage
from deployments.observability.declaring import NONE, Label

OK = "ok"
CANCELLED = "cancelled"
CLIENT_GONE = "client_gone"
"""The client hung up before its answer was complete; stands in logs (as 499) and metrics only."""

_CODES_OF_THE_API = (
    "invalid_request",
    "malformed_json",
    "unsupported_field",
    "body_too_large",
    "unsupported_media_type",
    "not_found",
    "method_not_allowed",
    "unauthorized",
    "forbidden",
    "body_too_slow",
    "headers_too_large",
)
"""Codes of refusals that no error of the core stands for."""


def _codes(kind: type[CragError] = CragError) -> Iterator[str]:
    yield kind.code
    for child in kind.__subclasses__():
        yield from _codes(child)


LANE = Label.of("lane", Lane)
PIPELINE = Label.of("pipeline", (*PipelineName, NONE))
ACTION = Label.of("action", (*Action, NONE))
QUALITY = Label.of("quality", (*EvidenceQuality, NONE))
STAGE = Label.of("stage", (*Stage, *PipelineName))
"""What a handle call is for; a pipeline stands for its graph."""
REASON = Label.of("reason", Reason)
OUTCOME = Label.of("outcome", (OK, CLIENT_GONE, CANCELLED, *_codes(), *_CODES_OF_THE_API))
HOST = Label("host", at_most=3)
"""A wiki's host, of which the settings name one."""
PROCESS = Label("process", at_most=20)
"""What a process is: the class of its replica."""

KEY = Label("key", at_most=100)
"""The id of an API key, of which the operator's file has so many; never the key."""
TOKEN_KIND = Label.of("kind", ("prompt", "completion"))

SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0)
"""Buckets of durations, from a handle call to the longest deadline."""
