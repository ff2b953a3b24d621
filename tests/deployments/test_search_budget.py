"""The rules of a wiki's budget, one by one, on a clock that the test moves."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from benchmarks.faulted_hour import most_in
from crag_core.context import Lane
from deployments.backends.wikipedia.answer_cache import AnswerCache
from deployments.backends.wikipedia.budget import Outcome, Refusal
from deployments.backends.wikipedia.circuit_breaker import Circuit, CircuitBreaker
from deployments.backends.wikipedia.host_gate import HostGate
from deployments.backends.wikipedia.query_key import query_key
from deployments.backends.wikipedia.retry import outcome_of_code, outcome_of_status, retry_in_s
from deployments.settings import MediaWikiSettings, SearchBudgetSettings, SearchCacheSettings
from deployments.token_bucket import TokenBucket

BUDGET = SearchBudgetSettings(requests_per_minute=60, burst=6, max_in_flight=2, lease_s=10)


@given(
    st.lists(st.floats(0, 30), min_size=1, max_size=300),
    st.integers(2, 60),
    st.integers(0, 200),
)
def test_no_minute_has_more_requests_than_allowed_even_when_the_bucket_is_lost(
    gaps_s: list[float], per_minute: int, lost_at: int
) -> None:
    settings = SearchBudgetSettings(requests_per_minute=per_minute, burst=max(1, per_minute // 3))
    bucket = TokenBucket(settings.rate_per_s, settings.burst, 0.0)
    now_s, taken_s = 0.0, []
    for number, gap_s in enumerate(gaps_s):
        now_s += gap_s
        if number == lost_at:
            bucket = TokenBucket(settings.rate_per_s, settings.burst, now_s)
        while not bucket.ready_in_s(now_s):
            bucket.take(now_s)
            taken_s.append(now_s)
    assert most_in(taken_s, 60.0) <= per_minute


def test_a_bucket_says_when_it_is_ready() -> None:
    bucket = TokenBucket(rate_per_s=2.0, burst=3, updated_s=0.0)
    assert bucket.ready_in_s(0.0) == 0.5
    assert bucket.ready_in_s(0.0, 4) == 2.0
    assert bucket.tokens(100.0) == 3.0


def breaker() -> CircuitBreaker:
    settings = SearchBudgetSettings(failures_in_a_row=4, failure_window=4, open_s=5, max_open_s=15)
    return CircuitBreaker(settings)


def test_failures_in_a_row_open_the_circuit_and_a_probe_closes_it() -> None:
    circuit = breaker()
    for _ in range(4):
        circuit.record(0.0, failed=True)
    circuit.record(0.0, failed=False)
    assert circuit.state(0.0) is Circuit.OPEN  # an answer that comes late does not close it
    assert circuit.state(4.9) is Circuit.OPEN
    assert circuit.state(5.0) is Circuit.HALF_OPEN
    circuit.record(5.0, failed=False)
    assert circuit.state(5.0) is Circuit.CLOSED


def test_half_of_the_window_opens_the_circuit_but_not_less() -> None:
    circuit = breaker()
    for failed in (True, False, False, False, True, False):
        circuit.record(0.0, failed=failed)
        assert circuit.state(0.0) is Circuit.CLOSED
    circuit.record(0.0, failed=True)
    assert circuit.state(0.0) is Circuit.OPEN


def test_a_circuit_stays_open_longer_with_each_failed_probe_up_to_its_limit() -> None:
    circuit, now_s, open_s = breaker(), 0.0, []
    for _ in range(4):
        circuit.record(now_s, failed=True)
    for _ in range(4):
        open_s.append(circuit.half_opens_in_s(now_s))
        now_s += open_s[-1]
        circuit.record(now_s, failed=True)
    assert open_s == [5, 10, 15, 15]


def gate(now_s: float = 60.0, **changes: object) -> HostGate:
    return HostGate("wiki", BUDGET.model_copy(update=changes), now_s - 60)


def test_slots_are_freed_by_reports_and_by_time() -> None:
    open_gate = gate()
    open_gate.start(60.0, 1)
    open_gate.start(60.0, 2)
    assert open_gate.opens_in_s(60.0) == float("inf")
    assert open_gate.next_expiry_in_s(62.0) == 8.0
    open_gate.end(61.0, 1, Outcome.OK, 0.0)
    assert open_gate.opens_in_s(61.0) == 0.0
    assert open_gate.free_expired(70.0) == [2]
    assert open_gate.in_flight == 0


def test_a_pause_is_everybodys_and_the_longest_wins() -> None:
    open_gate = gate()
    for flight, retry_after_s in ((1, 30.0), (2, 10.0)):
        open_gate.start(60.0, flight)
        open_gate.end(60.0, flight, Outcome.THROTTLED, retry_after_s)
    assert open_gate.opens_in_s(60.0) == 30.0
    refused = open_gate.refusal(60.0, 0, timeout_s=6.0)
    assert refused is not None and refused.reason is Refusal.THROTTLED
    assert open_gate.refusal(60.0, 0, timeout_s=31.0) is None
    assert open_gate.circuit(60.0) is Circuit.CLOSED


def test_throttling_without_a_time_pauses_longer_each_time_until_an_answer_comes() -> None:
    open_gate, now_s, pauses_s = gate(), 60.0, []
    for number, outcome in enumerate([*[Outcome.THROTTLED] * 3, Outcome.OK, Outcome.THROTTLED]):
        open_gate.start(now_s, number)
        open_gate.end(now_s, number, outcome, 0.0)
        pauses_s.append(open_gate.opens_in_s(now_s))
        now_s += 60
    assert pauses_s == [1, 2, 4, 0, 1]


def test_a_lagging_wiki_pauses_jobs_and_not_people() -> None:
    open_gate = gate()
    open_gate.start(60.0, 1)
    open_gate.end(60.0, 1, Outcome.LAGGING, 5.0)
    assert open_gate.opens_in_s(60.0, Lane.INTERACTIVE) == 0.0
    assert open_gate.opens_in_s(60.0, Lane.BATCH) == 5.0
    assert open_gate.refusal(60.0, 0, 4.0) is None
    refused = open_gate.refusal(60.0, 0, 4.0, Lane.BATCH)
    assert refused is not None and refused.reason is Refusal.THROTTLED


def answered(asked: HostGate, seconds: float, times: int = 30) -> HostGate:
    for number in range(times):
        asked.start(60.0 + 20 * number - seconds, number)
        asked.end(60.0 + 20 * number, number, Outcome.OK, 0.0)
    return asked


def test_one_who_would_wait_too_long_for_a_slot_is_told_at_once() -> None:
    plenty = gate(requests_per_minute=6_000, burst=100)
    busy, now_s = answered(plenty, seconds=1.0), 1000.0
    for flight in (100, 101):
        busy.start(now_s, flight)
    assert busy.refusal(now_s, ahead=0, timeout_s=2.0) is None
    refused = busy.refusal(now_s, ahead=4, timeout_s=2.0)
    assert refused is not None and refused.reason is Refusal.BUDGET_SPENT


def test_a_wiki_that_was_slow_is_tried_by_those_who_have_all_their_time() -> None:
    slow = answered(gate(), seconds=8.0)
    assert slow.refusal(1000.0, ahead=0, timeout_s=6.0) is None


def test_a_retry_after_of_days_is_cut() -> None:
    open_gate = gate()
    open_gate.start(60.0, 1)
    open_gate.end(60.0, 1, Outcome.THROTTLED, 1e9)
    assert open_gate.opens_in_s(60.0) == BUDGET.max_pause_s


def test_one_who_comes_too_late_for_his_deadline_is_told_at_once() -> None:
    full = gate(now_s=0.0, burst=6)
    full = HostGate("wiki", BUDGET, 0.0)  # an empty bucket: 0.9 requests a second
    assert full.refusal(0.0, ahead=0, timeout_s=2.0) is None
    refused = full.refusal(0.0, ahead=4, timeout_s=2.0)
    assert refused is not None and refused.reason is Refusal.BUDGET_SPENT
    assert "5.56 s" in refused.message


def test_only_one_probe_passes_a_half_open_circuit() -> None:
    broken = gate()
    for number in range(5):
        broken.start(60.0, number)
        broken.end(60.0, number, Outcome.UNAVAILABLE, 0.0)
    refused = broken.refusal(60.0, 0, 6.0)
    assert refused is not None and refused.reason is Refusal.CIRCUIT_OPEN
    assert broken.refusal(65.0, 0, 6.0) is None
    assert broken.opens_in_s(65.0) == 0.0
    broken.start(65.0, 9)
    assert broken.opens_in_s(65.0) == float("inf")
    refused = broken.refusal(65.0, 0, 6.0)
    assert refused is not None and refused.reason is Refusal.CIRCUIT_OPEN


def test_a_block_opens_the_circuit_a_wrong_query_does_not() -> None:
    for outcome, circuit in ((Outcome.BLOCKED, Circuit.OPEN), (Outcome.REFUSED, Circuit.CLOSED)):
        asked = gate()
        for number in range(5):
            asked.start(60.0, number)
            asked.end(60.0, number, outcome, 0.0)
        assert asked.circuit(60.0) is circuit


@given(st.integers(1, 400))
def test_retries_stay_within_their_share(requests: int) -> None:
    asked, retries, now_s = gate(failures_in_a_row=10_000, failure_window=10_000), 0, 60.0
    for number in range(requests):
        now_s += 60
        asked.start(now_s, number)
        asked.end(now_s, number, Outcome.UNAVAILABLE, 0.0)
        retries += asked.take_retry(now_s)
    assert retries <= 3 + BUDGET.retry_share * requests


def test_a_gate_goes_on_under_other_settings_with_what_was_spent() -> None:
    open_gate = gate()
    for number in range(6):
        open_gate.start(60.0, number)
        open_gate.end(60.0, number, Outcome.OK, 0.0)
    open_gate.adopt(BUDGET.model_copy(update={"requests_per_minute": 126}), 60.0)
    assert open_gate.opens_in_s(60.0) == pytest.approx(0.5)


class Clock:
    now_s = 0.0

    def __call__(self) -> float:
        return self.now_s


def test_answers_are_fresh_then_stale_then_gone_and_empty_ones_are_never_stale() -> None:
    clock = Clock()
    cache = AnswerCache(SearchCacheSettings(ttl_s=100, negative_ttl_s=10, stale_s=1000), clock)
    cache.put(b"page", b"text", is_negative=False)
    cache.put(b"none", b"{}", is_negative=True)
    assert (cache.fresh(b"page"), cache.fresh(b"none")) == (b"text", b"{}")
    assert cache.stale(b"none") is None
    clock.now_s = 50
    assert (cache.fresh(b"page"), cache.fresh(b"none")) == (b"text", None)
    clock.now_s = 500
    assert (cache.fresh(b"page"), cache.stale(b"page")) == (None, b"text")
    clock.now_s = 1001
    assert cache.stale(b"page") is None
    assert cache.entries == 0


def test_a_cache_is_bounded_in_bytes_and_in_entries() -> None:
    settings = SearchCacheSettings(max_bytes=1000, max_entries=10, max_entry_bytes=600)
    by_bytes, by_entries = AnswerCache(settings, Clock()), AnswerCache(settings, Clock())
    for number in range(40):
        by_bytes.put(bytes([number]), b"x" * 300, is_negative=False)
        by_entries.put(bytes([number]), b"x", is_negative=False)
    assert (by_bytes.entries, by_entries.entries) == (3, 10)
    by_bytes.put(b"large", b"x" * 601, is_negative=False)
    assert by_bytes.fresh(b"large") is None
    assert by_entries.fresh(bytes([39])) and not by_entries.fresh(bytes([0]))
    small = AnswerCache(SearchCacheSettings(max_bytes=1000), Clock())
    small.put(b"large", b"x" * 1001, is_negative=False)
    assert small.fresh(b"large") is None


@pytest.mark.parametrize(
    ("attempt", "retry_after_s", "least", "most"), [(1, 0, 0, 0.2), (3, 0, 0, 0.8), (9, 2, 2, 6)]
)
def test_full_jitter_comes_on_top_of_retry_after(
    attempt: int, retry_after_s: float, least: float, most: float
) -> None:
    assert retry_in_s(attempt, retry_after_s, min) == least
    assert retry_in_s(attempt, retry_after_s, max) == pytest.approx(most)


@pytest.mark.parametrize(
    ("status", "outcome"),
    [
        (200, Outcome.OK),
        (429, Outcome.THROTTLED),
        (503, Outcome.UNAVAILABLE),
        (403, Outcome.BLOCKED),
        (302, Outcome.BLOCKED),
        (999, Outcome.BLOCKED),
    ],
)
def test_statuses(status: int, outcome: Outcome) -> None:
    assert outcome_of_status(status) is outcome


@pytest.mark.parametrize(
    ("code", "outcome"),
    [
        ("maxlag", Outcome.LAGGING),
        ("ratelimited", Outcome.THROTTLED),
        ("readonly", Outcome.UNAVAILABLE),
        ("cirrussearch-too-busy-error", Outcome.UNAVAILABLE),
        ("internal_api_error_DBQueryError", Outcome.UNAVAILABLE),
        ("missingparam", Outcome.REFUSED),
        ("toomanyvalues", Outcome.REFUSED),
    ],
)
def test_codes_of_api_errors(code: str, outcome: Outcome) -> None:
    assert outcome_of_code(code) is outcome


def test_equal_queries_have_equal_keys_and_titles_keep_their_case() -> None:
    url = "https://wiki.example/w/api.php"
    assert query_key(url, {"a": "1", "gsrsearch": "Beyonce\u0301  song"}) == query_key(
        url, {"gsrsearch": "beyoncé SONG", "a": "1"}
    )
    assert query_key(url, {"titles": "Os"}) != query_key(url, {"titles": "OS"})
    assert query_key(url, {"a": 'b", "c": "d'}) != query_key(url, {"a": "b", "c": "d"})
    assert query_key(url, {"a": "1"}) != query_key(url + "2", {"a": "1"})
    query_key(url, {"gsrsearch": "\ud800"})


def test_a_lease_outlasts_its_request() -> None:
    with pytest.raises(ValidationError, match=r"budget.lease_s 8 must exceed timeout_s 20"):
        MediaWikiSettings(api_url="http://wiki.example", timeout_s=20)
    with pytest.raises(ValidationError, match="burst 90 leaves nothing"):
        SearchBudgetSettings(requests_per_minute=90, burst=90)


def test_wikimedias_wikis_share_one_budget() -> None:
    names = [
        MediaWikiSettings(api_url=f"https://{host}/w/api.php", contact="ops@x.example").budget_name
        for host in ("en.wikipedia.org", "de.wikipedia.org", "www.wikidata.org", "wiki.example")
    ]
    assert names == ["wikimedia", "wikimedia", "wikimedia", "wiki.example"]


def test_a_replica_on_its_own_has_a_small_share() -> None:
    lost = SearchBudgetSettings().when_lost()
    assert (lost.requests_per_minute, lost.burst, lost.max_in_flight) == (18, 1, 1)
