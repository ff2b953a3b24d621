"""When a failed request is worth another attempt, and after how long."""

import re
from collections.abc import Callable
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from http import HTTPStatus

from deployments.backends.wikipedia.budget import Outcome

_BASE_S = 0.2
_LONGEST_S = 4.0

_OUTCOME_OF_STATUS: dict[int, Outcome] = {
    HTTPStatus.OK: Outcome.OK,
    HTTPStatus.TOO_MANY_REQUESTS: Outcome.THROTTLED,
    HTTPStatus.INTERNAL_SERVER_ERROR: Outcome.UNAVAILABLE,
    HTTPStatus.BAD_GATEWAY: Outcome.UNAVAILABLE,
    HTTPStatus.SERVICE_UNAVAILABLE: Outcome.UNAVAILABLE,
    HTTPStatus.GATEWAY_TIMEOUT: Outcome.UNAVAILABLE,
}
_OUTCOME_OF_CODE = {"maxlag": Outcome.LAGGING, "ratelimited": Outcome.THROTTLED}
_UNAVAILABLE_CODE = re.compile(r"readonly|cirrussearch-too-busy-error|internal_api_error_\w+")


def outcome_of_status(status: int) -> Outcome:
    """What an HTTP status says of a request."""
    return _OUTCOME_OF_STATUS.get(status, Outcome.BLOCKED)


def outcome_of_code(code: str) -> Outcome:
    """What the code of an API error says of a request, whose HTTP status is 200."""
    if code in _OUTCOME_OF_CODE:
        return _OUTCOME_OF_CODE[code]
    return Outcome.UNAVAILABLE if _UNAVAILABLE_CODE.fullmatch(code) else Outcome.REFUSED


def retry_in_s(attempt: int, retry_after_s: float, uniform: Callable[[float, float], float]) -> float:
    """Seconds to wait after failed attempt number 1, 2, ...: what is asked for, and full jitter.

    >>> retry_in_s(3, 2.0, max)
    2.8
    """
    return retry_after_s + uniform(0.0, min(_LONGEST_S, _BASE_S * 2 ** (attempt - 1)))


def retry_after_s(value: str, now: datetime) -> float:
    """Seconds that a Retry-After header asks to wait: a number, or a date; 0 if it is neither."""
    if value.isdecimal():
        return float(value[:9])
    try:
        when = parsedate_to_datetime(value)
    except (ValueError, OverflowError):
        return 0.0
    return max(0.0, (when.replace(tzinfo=when.tzinfo or UTC) - now).total_seconds())
