"""Replies: what counts as an answer, and what a reply is called that is none."""

import json
from typing import Any

import pytest

from benchmarks.load.outcomes import Outcome
from benchmarks.load.replies import (
    StreamReading,
    read_answer,
    read_completion,
    read_explanation,
    read_ranking,
    read_refusal,
)
from tests.benchmarks.servers import ANSWER, DONE, RANKING, chunk


@pytest.mark.parametrize(
    ("status", "outcome"),
    [
        (429, Outcome.SHED), (504, Outcome.TIMED_OUT), (400, Outcome.REFUSED), (422, Outcome.REFUSED),
        (499, Outcome.REFUSED), (500, Outcome.FAILED), (502, Outcome.FAILED), (503, Outcome.FAILED),
        (204, Outcome.BAD_ANSWER), (302, Outcome.BAD_ANSWER),
    ],
)  # fmt: skip
def test_a_status_decides_the_outcome(status: int, outcome: Outcome) -> None:
    body = json.dumps({"error": {"code": "overloaded", "message": "m"}}).encode()
    assert (read_refusal(status, body).outcome, read_refusal(status, body).code) == (
        outcome,
        "overloaded",
    )
    assert read_refusal(status, b"<html>").code == f"http_{status}"


def test_a_servers_words_become_labels_only_where_they_look_like_ones() -> None:
    for code in ("a" * 41, "Überlast", "x\ny", "<script>", 7, None, {"a": 1}):
        assert read_refusal(500, json.dumps({"error": {"code": code}}).encode()).code == "http_500"


def test_an_answer_is_read_with_action_stages_and_rungs() -> None:
    degraded = {"degraded": [{"stage": "search", "reason": "search_failed"}] * 2}
    reading = read_answer(json.dumps(ANSWER | degraded).encode())
    assert reading.outcome is Outcome.DEGRADED and reading.degraded == ("search_failed",)
    assert reading.action == "correct" and reading.completion_tokens == 3
    assert reading.stages == (("retrieve", 0.001), ("generate", 0.002))
    assert read_answer(json.dumps(ANSWER).encode()).outcome is Outcome.OK


def test_stages_side_by_side_cover_their_time_once() -> None:
    spans = [("search", 0.0, 4.0), ("refine_internal", 1.0, 2.0), ("generate", 6.0, 1.0)]
    stages = [{"stage": n, "started_s": at, "seconds": s} for n, at, s in spans]
    reading = read_answer(json.dumps({"answer": "a", "trace": {"stages": stages}}).encode())
    assert reading.stages_cover_s == pytest.approx(5.0)


@pytest.mark.parametrize(
    "body", [b"", b"{", b"[]", b"null", b'{"answer": 1}', b"\xff", b"[" * 100_000, b'{"error": "x"}']
)
def test_what_is_no_answer_is_called_so(body: bytes) -> None:
    for read in (read_answer, read_completion, read_ranking, read_explanation):
        assert read(body).outcome is Outcome.BAD_ANSWER and read(body).code.startswith("not_a")


@pytest.mark.parametrize(
    "details",
    [
        {"degraded": {"a": 1}}, {"degraded": [1, None]}, {"trace": 5}, {"trace": {"stages": {"a": 1}}},
        {"trace": {"stages": [None, {"stage": "x"}, {"stage": "s", "seconds": "1"}]}},
        {"usage": {"completion_tokens": -1}}, {"usage": []}, {"action": ["correct"]},
    ],
)  # fmt: skip
def test_details_of_another_shape_are_left_out(details: dict[str, Any]) -> None:
    reading = read_answer(json.dumps({"answer": "a"} | details).encode())
    assert reading.outcome is Outcome.OK
    assert (reading.action, reading.degraded, reading.stages, reading.completion_tokens) == (
        "",
        (),
        (),
        0,
    )


def test_a_ranking_may_hold_null_and_no_words() -> None:
    assert read_ranking(json.dumps(RANKING).encode()).outcome is Outcome.OK
    assert read_ranking(b'{"results": [{"relevance_score": null}]}').outcome is Outcome.OK
    assert read_ranking(b'{"results": [{"relevance_score": "1"}]}').outcome is Outcome.BAD_ANSWER
    assert read_ranking(b'{"results": [{"relevance_score": NaN}]}').outcome is Outcome.BAD_ANSWER


@pytest.mark.parametrize(
    ("score", "outcome"), [(1.5, Outcome.OK), (1.6, Outcome.BAD_ANSWER), ("1", Outcome.BAD_ANSWER)]
)
def test_an_explanation_must_add_up(score: object, outcome: Outcome) -> None:
    body = {"score": score, "base_value": 1.0, "tokens": [{"value": 0.25}, {"value": 0.25}]}
    assert read_explanation(json.dumps(body).encode()).outcome is outcome


WHOLE = [chunk(), chunk("Black"), chunk("burn"), chunk(finish="stop", crag=ANSWER), DONE]


def test_a_stream_is_timed_piece_by_piece() -> None:
    stream = StreamReading()
    for at_s, event in enumerate(WHOLE):
        stream.took(event, float(at_s))
    reading = stream.ended()
    assert reading.outcome is Outcome.OK and reading.action == "correct"
    assert reading.first_s == 1.0, "the role chunk holds no text"
    assert list(reading.gaps_s) == [1.0]
    assert reading.completion_tokens == 3


@pytest.mark.parametrize("size", [1, 7, 64, 10_000])
def test_a_stream_reads_the_same_however_it_is_cut(size: int) -> None:
    data = b"".join(WHOLE).replace(b"\n", b"\r\n")
    stream = StreamReading()
    for start in range(0, len(data), size):
        stream.took(data[start : start + size], 0.0)
    reading = stream.ended()
    assert (reading.outcome, reading.completion_tokens, len(reading.gaps_s)) == (Outcome.OK, 3, 1)


@pytest.mark.parametrize(
    ("events", "code"),
    [
        (WHOLE[:-1], "no_done"),
        ([*WHOLE[:3], DONE], "no_finish"),
        ([], "no_done"),
        ([chunk("a"), b'data: {"error": {"code": "stage_timed_out"}}\n\n', DONE], "stage_timed_out"),
        ([chunk("a"), b'data: {"error": "gone"}\n\n', DONE], "error"),
        ([chunk("a"), b"data: {half\n\n", *WHOLE[3:]], "not_json"),
        ([b"data: " + b"x" * 2_000_000], "line_too_long"),
    ],
)
def test_a_broken_stream_is_told_from_a_whole_one(events: list[bytes], code: str) -> None:
    stream = StreamReading()
    for event in events:
        stream.took(event, 0.0)
    assert (stream.ended().outcome, stream.ended().code) == (Outcome.BROKEN_STREAM, code)


def test_a_stream_that_gave_something_up_is_degraded() -> None:
    stream = StreamReading()
    details = ANSWER | {"degraded": [{"reason": "search_failed"}]}
    stream.took(chunk("a") + chunk(finish="stop", crag=details) + DONE, 0.0)
    assert stream.ended().outcome is Outcome.DEGRADED
