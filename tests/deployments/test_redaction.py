import logging
import time
from collections.abc import Iterator

import pytest

from deployments.api.keys import new_secret
from deployments.observability.redaction import redact_logs, redacted


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("Authorization: Bearer abc.d-e_f", "Authorization: Bearer [redacted]"),
        ("{'authorization': 'Basic dTpw=='}", "{'authorization': 'Basic [redacted]'}"),
        ('{"api_key": "k1", "rows": 3}', '{"api_key": "[redacted]", "rows": 3}'),
        ("aws_secret_access_key=AbC/9", "aws_secret_access_key=[redacted]"),
        ("x-" * 99 + "token: t", "x-" * 99 + "token: [redacted]"),
        ("redis://:p@host/0", "redis://[redacted]@host/0"),
        ("https://u:p@wiki.example/w?token=t", "https://[redacted]@wiki.example/w?token=[redacted]"),
        ("max_tokens=100 at https://wiki.example/crag-serve", None),
        ("the crag-serve application", None),
    ],
)
def test_what_looks_like_a_secret_is_taken_out_and_nothing_else(text: str, shown: str | None) -> None:
    assert redacted(text) == (shown or text)


@pytest.mark.parametrize(
    ("start", "part"),
    [("", "a-"), ("", "token "), ("", "token= "), ("", "bearer "), ("token", " "), ("://", "a:")],
)
def test_a_text_ten_times_as_long_takes_about_ten_times_as_long(start: str, part: str) -> None:
    def seconds(times: int) -> float:
        text = start + part * times
        started = time.perf_counter()
        redacted(text)
        return time.perf_counter() - started

    short_s, long_s = (min(seconds(times) for _ in range(5)) for times in (500, 5_000))
    assert long_s < 40 * short_s


def test_our_own_keys_are_known_wherever_they_stand() -> None:
    secret = new_secret()
    assert secret not in redacted(f"refused {secret!r}: not known")


@pytest.fixture
def redacting() -> Iterator[None]:
    before = logging.getLogRecordFactory()
    redact_logs()
    yield
    logging.setLogRecordFactory(before)


def test_neither_message_nor_traceback_of_any_logger_shows_a_secret(
    redacting: None, caplog: pytest.LogCaptureFixture
) -> None:
    secret = new_secret()
    redact_logs()
    try:
        raise ValueError(f"bad header Bearer {secret}")
    except ValueError:
        logging.getLogger("some.library").exception("sent %s to %s", secret, "wiki.example")
    assert "wiki.example" in caplog.text and "bad header Bearer [redacted]" in caplog.text
    assert secret not in caplog.text


def test_a_record_whose_arguments_do_not_fit_is_left_to_its_handler(redacting: None) -> None:
    record = logging.getLogRecordFactory()("n", logging.INFO, "f", 1, "%d", ("x",), None)
    assert record.args == ("x",)
