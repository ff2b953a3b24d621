"""Secrets are taken out of whatever is written down: log records here, other texts by `redacted`."""

import logging
import re
from typing import Any

_REDACTED = "[redacted]"
_SECRET = re.compile(
    r"""
    (?P<keep>
        \b(?:bearer|basic)\s+                                                    # a header's value
      | \bcrag-(?=[\w-]{20})                                                     # an API key of ours
      | (?:authorization|api[_-]?key|access[_-]?token|client[_-]?secret          # a name's last word
            |secret(?:[_-]?access)?[_-]?key|password|token)["']?\s*[:=]\s*["']?
            (?!["']?(?:bearer|basic)\b)                                          # those are above
      | ://(?=[^/\s@:]*:[^/\s@]+@)                                               # a user in a URL
    )
    [^\s"'&,;@}\])]+
    """,
    re.IGNORECASE | re.VERBOSE,
)


def redacted(text: str) -> str:
    """The text without what looks like a secret.

    >>> redacted("GET /v1/models with Authorization: Bearer abc.def failed")
    'GET /v1/models with Authorization: Bearer [redacted] failed'
    >>> redacted("redis://user:hunter2@host/0?token=abc&db=1")
    'redis://[redacted]@host/0?token=[redacted]&db=1'
    """
    return _SECRET.sub(rf"\g<keep>{_REDACTED}", text)


def redact_logs() -> None:
    """From now on no log record of this process, nor its traceback, holds what looks like a secret.

    A factory of records reaches every logger and handler, those of libraries too.
    """
    make: Any = logging.getLogRecordFactory()
    if getattr(make, "redacts", False):
        return

    def make_redacted(*args: Any, **kwargs: Any) -> logging.LogRecord:
        record: logging.LogRecord = make(*args, **kwargs)
        try:
            record.msg, record.args = redacted(record.getMessage()), ()
        except (TypeError, ValueError):
            return record  # its handler tells of arguments that do not fit
        if record.exc_info and record.exc_info[0] is not None:
            # handlers write this text instead of formatting the traceback themselves
            record.exc_text = redacted(logging.Formatter().formatException(record.exc_info))
        return record

    make_redacted.redacts = True  # type: ignore[attr-defined]  # said of this one factory
    logging.setLogRecordFactory(make_redacted)
