"""Sums: what is counted, what is left out, and what a reader is warned of."""

from array import array
from typing import Any

import pytest

from benchmarks.load.outcomes import Outcome, Record
from benchmarks.load.processes import Ending, Run
from benchmarks.load.report import report, sections
from benchmarks.load.settings import LoadSettings
from benchmarks.load.summary import OUTSIDE_STAGES, Summary, Times, stage_means, summarise
from benchmarks.load.verdict import Exit, of_run


def record(at_s: float = 0.0, latency_s: float = 0.1, **more: Any) -> Record:
    fields = {
        "number": 0, "kind": "answer", "is_background": False, "at_s": at_s, "sent_s": at_s,
        "end_s": at_s + latency_s, "outcome": Outcome.OK,
    }  # fmt: skip
    return Record(**(fields | more))


def summed(records: list[Record], ending: Ending = Ending.COMPLETE, **settings: Any) -> Summary:
    wanted = LoadSettings.model_validate({"warmup_s": 0, "duration_s": 10} | settings)
    return summarise(Run(wanted, "r", records=records, ending=ending, in_flight=3))


def test_percentiles_are_values_that_occurred() -> None:
    times = Times.of(value / 1000 for value in range(1, 1001))
    assert times is not None
    found = (times.p50_s, times.p90_s, times.p99_s, times.p999_s, times.max_s)
    assert found == (0.5, 0.9, 0.99, 0.999, 1.0)
    assert Times.of([]) is None


def test_goodput_counts_whole_answers_within_the_slo() -> None:
    records = [record(latency_s=seconds) for seconds in (0.1, 0.5, 0.51, 2.0)]
    records += [record(outcome=Outcome.SHED), record(outcome=Outcome.DEGRADED)]
    summary = summed(records, slo={"latency_s": 0.5, "share": 0.5})
    assert (summary.good, summary.judged, summary.good_per_s) == (3, 6, pytest.approx(0.3))
    assert summary.meets_slo is True
    assert summed(records, slo={"latency_s": 0.5, "share": 0.51}).meets_slo is False
    assert summed(records).meets_slo is None


def test_a_first_token_in_time_is_asked_for_where_it_is_set() -> None:
    slo = {"first_token_s": 0.2, "share": 1.0}
    streamed = {"workload": {"is_streamed": True}, "slo": slo}
    records = [record(first_s=0.1), record(first_s=0.3), record(first_s=None)]
    assert summed(records, **streamed).good == 1


def test_the_warm_up_and_the_background_are_left_out() -> None:
    records = [record(at_s=4.9, outcome=Outcome.FAILED), record(at_s=5.0)]
    records.append(record(at_s=6.0, is_background=True, outcome=Outcome.FAILED))
    summary = summed(records, warmup_s=5)
    assert (summary.due, summary.outcomes, summary.background_failures) == (1, {"ok": 1}, 1)


def test_those_who_hung_up_are_not_judged() -> None:
    summary = summed([record(), record(outcome=Outcome.HUNG_UP)], slo={"latency_s": 1})
    assert (summary.judged, summary.good_share, summary.meets_slo) == (1, 1.0, True)


def test_what_no_stage_accounts_for_has_a_row_of_its_own() -> None:
    stages = (("retrieve", 0.1), ("generate", 0.2))
    summary = summed([record(latency_s=1.0, stages=stages, stages_cover_s=0.3)] * 3)
    assert summary.stages[OUTSIDE_STAGES].p50_s == pytest.approx(0.7)
    assert summary.bottleneck == OUTSIDE_STAGES


def test_stage_means_count_answers_without_the_stage() -> None:
    with_search = record(stages=(("search", 1.0),), stages_cover_s=1.0)
    without = record(stages=(("generate", 0.1),), stages_cover_s=0.1)
    assert stage_means([with_search, without])["search"] == pytest.approx(0.5)


def test_gaps_of_all_answers_are_ranked_together() -> None:
    records = [record(gaps_s=array("f", [0.1] * 98)), record(gaps_s=array("f", [0.5, 0.5]))]
    summary = summed(records)
    assert summary.inter_token is not None and summary.inter_token.count == 100
    assert summary.inter_token.p99_s == pytest.approx(0.5)


def test_stretches_of_time_show_when_it_went_wrong() -> None:
    records = [record(at_s=float(second)) for second in range(10)]
    records[7] = record(at_s=7.0, outcome=Outcome.FAILED)
    bins = summed(records).bins
    assert [bin_.failed_per_s for bin_ in bins] == [0, 0, 0, 0, 0, 0, 0, 1, 0, 0]
    assert bins[7].p99_s is None


def test_a_late_generator_and_a_full_one_are_told() -> None:
    late = summed([record(sent_s=0.05)] * 10).warnings
    assert any("50 ms late" in warning for warning in late)
    assert summed([record(sent_s=0.004)] * 10).warnings == ()
    full = record(outcome=Outcome.CONNECTION_ERROR, code="generator_full", sent_s=None)
    assert any("too many were waiting" in warning for warning in summed([record(), full]).warnings)


@pytest.mark.parametrize("outcome", [Outcome.SHED, Outcome.CONNECTION_ERROR, Outcome.BAD_ANSWER])
def test_a_server_that_answers_nobody_ends_in_words_that_say_so(outcome: Outcome) -> None:
    summary = summed([record(outcome=outcome, code="why")] * 5, slo={"latency_s": 1})
    verdict = of_run(summary, LoadSettings.model_validate({"slo": {"latency_s": 1}}))
    assert verdict.exit_code is Exit.NOTHING_ANSWERED
    assert f"5 of 5 ended as {outcome} (why)" in verdict.sentence


def test_an_interrupted_run_counts_what_it_saw_over_the_time_it_had() -> None:
    summary = summed([record(at_s=1.0), record(at_s=2.0)], Ending.BY_USER)
    assert (summary.measured_s, summary.unfinished) == (2.0, 3)
    assert of_run(summary, LoadSettings()).exit_code is Exit.INTERRUPTED


def test_no_header_value_stands_in_a_report() -> None:
    settings = LoadSettings.model_validate({"client": {"headers": [("Authorization", "Bearer s3cret")]}})
    summary = summed([record()])
    written = report("http://x", "r", settings, of_run(summary, settings), summary)
    assert "s3cret" not in f"{written.as_json()}{sections(written)}{settings!r}"
    assert "Authorization" in str(written.as_json())
