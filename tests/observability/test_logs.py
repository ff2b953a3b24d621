"""What is written down of a request, and what is not."""

import asyncio
import io
import json
import logging
from collections.abc import Iterator
from typing import Any

import pytest

from deployments.observability.logs import RequestLog, log_as_json
from deployments.observability.redaction import redact_logs
from tests.deployments.application import POLITICIAN, QUESTION, Application
from tests.fakes import FakeGenerator


@pytest.fixture
def written() -> Iterator[io.StringIO]:
    """What this process's own loggers write."""
    stream, factory = io.StringIO(), logging.getLogRecordFactory()
    before = {
        name: (logger.handlers, logger.level, logger.propagate)
        for name in ("deployments", "crag_core")
        for logger in [logging.getLogger(name)]
    }
    log_as_json(stream)
    yield stream
    for name, (handlers, level, propagate) in before.items():
        logger = logging.getLogger(name)
        logger.handlers, logger.propagate = handlers, propagate
        logger.setLevel(level)
    logging.setLogRecordFactory(factory)


def lines(written: io.StringIO) -> list[dict[str, Any]]:
    return [json.loads(line) for line in written.getvalue().splitlines()]


def application(*, with_texts: bool) -> Application:
    return Application(observer=RequestLog(with_texts=with_texts))  # type: ignore[arg-type]


async def test_a_request_is_one_line_with_its_id_decision_and_times(written: io.StringIO) -> None:
    response = await application(with_texts=False).answer()
    (line,) = lines(written)
    assert line["request_id"] == response.headers["x-request-id"]
    assert (line["outcome"], line["pipeline"], line["action"]) == ("ok", "crag", "correct")
    assert [stage["stage"] for stage in line["stages"]][:2] == ["retrieve", "evaluate"]
    assert line["seconds"] > 0 and line["degraded"] == []
    assert line["time"].endswith("+00:00") and line["level"] == "info"


async def test_nobodys_words_are_logged_unless_the_operator_says_so(written: io.StringIO) -> None:
    await application(with_texts=False).answer()
    assert QUESTION not in written.getvalue() and POLITICIAN.text not in written.getvalue()
    await application(with_texts=True).answer()
    line = lines(written)[-1]
    assert line["question"] == QUESTION
    assert line["evidence"] == [{"document": POLITICIAN.id, "text": POLITICIAN.text}]


async def test_a_refusal_is_one_line_too(written: io.StringIO) -> None:
    await application(with_texts=True).answer(question="")
    (line,) = lines(written)
    assert line["outcome"] == "invalid_question"
    assert "answer" not in line


async def test_a_hang_up_is_logged_as_499(written: io.StringIO) -> None:
    hung_up = application(with_texts=False)
    hung_up.generator = FakeGenerator(hang=True)
    asking = asyncio.create_task(hung_up.answer())
    await hung_up.generator.waiting.wait()
    asking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asking
    (line,) = lines(written)
    assert line["outcome"] == "client_gone" and "499" in line["message"]


async def test_a_logged_question_holds_no_secret(written: io.StringIO) -> None:
    await application(with_texts=True).answer(question="Is my password: hunter2 any good?")
    assert "hunter2" not in written.getvalue()


def test_a_traceback_stays_on_its_line_and_without_secrets(written: io.StringIO) -> None:
    redact_logs()
    try:
        raise ValueError("token=hunter2")
    except ValueError:
        logging.getLogger("deployments.somewhere").exception("it failed")
    (line,) = lines(written)
    assert "ValueError: token=[redacted]" in line["traceback"]
