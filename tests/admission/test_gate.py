"""The gate in simulated time: what it lets in, what it turns away, and when it says to come back."""

import asyncio
from contextlib import suppress

import pytest

from crag_core.context import Lane, RequestContext
from crag_core.errors import Overloaded, StageTimedOut
from crag_core.types import Stage
from deployments.admission.demand import BESIDE, SERVING
from deployments.admission.gate import Gate, Refusal
from deployments.admission.patience import Patience
from deployments.settings import AdmissionSettings
from tests.admission.crowd import ANSWER, Crowd, others
from tests.fakes import FakeAdmissionObserver

SLOTS, SERVICE_S = 4, 0.2
CAPACITY_PER_S = SLOTS / SERVICE_S
PATIENCE_S = 3 * SERVICE_S


def ctx(lane: Lane = Lane.INTERACTIVE, remaining_s: float = 60.0) -> RequestContext:
    return RequestContext.starting_now("r", remaining_s, lane)


def taught(**settings: object) -> tuple[Gate, FakeAdmissionObserver]:
    """A gate that has seen a server of one slot, where an answer takes a second."""
    observer = FakeAdmissionObserver()
    gate = Gate(AdmissionSettings(max_wait_s=1e6), observer)
    for held in (0, 1, 3, 7, 15, 31):
        gate.heard(others(held, ANSWER))
        for _ in range(8):
            with gate.admitted(ctx(remaining_s=1e6), ANSWER) as ticket:
                ticket.took({Stage.GENERATE: held + 1.0})
    gate.heard(others(0, ANSWER, ingresses=0))
    gate._settings = AdmissionSettings.model_validate(settings)
    return gate, observer


class Inexhaustible(Patience):
    """Learns nothing of those that leave."""

    def left(self, age_s: float) -> None: ...


def goodput(*, tells_deadline: bool = True, retries: int = 0, times: float, seed: int) -> float:
    """Good answers a second where so many times what the server can do arrives."""
    crowd = Crowd(
        slots=SLOTS,
        service_s=SERVICE_S,
        patience_s=PATIENCE_S,
        tells_deadline=tells_deadline,
        retries=retries,
        seed=seed,
    )
    crowd.arrivals(0.3 * CAPACITY_PER_S, 0, 10)
    crowd.arrivals(times * CAPACITY_PER_S, 10, 40)
    crowd.run()
    return crowd.goodput_per_s(10, 40)


@pytest.fixture(scope="module")
def peak() -> float:
    return max(goodput(times=load, seed=0) + goodput(times=load, seed=1) for load in (0.9, 1.0))


@pytest.mark.parametrize(("tells_deadline", "share"), [(True, 0.85), (False, 0.75)])
def test_three_times_the_load_leaves_goodput_near_its_peak(
    peak: float, tells_deadline: bool, share: float
) -> None:
    """Clients that do not say how long they wait have to show it first."""
    flooded = sum(
        goodput(tells_deadline=tells_deadline, retries=2, times=3.0, seed=seed) for seed in (0, 1)
    )
    assert flooded >= share * peak


def test_without_a_limit_the_same_load_is_a_disaster() -> None:
    crowd = Crowd(
        AdmissionSettings(max_wait_s=1e6, max_in_flight=100_000),
        slots=SLOTS,
        service_s=SERVICE_S,
        patience_s=PATIENCE_S,
        tells_deadline=False,
    )
    crowd.gate._patience = Inexhaustible()
    crowd.arrivals(3 * CAPACITY_PER_S, 0, 30)
    crowd.run()
    assert crowd.goodput_per_s(0, 30) < 0.5 * CAPACITY_PER_S


def test_after_the_overload_everybody_is_served_again() -> None:
    crowd = Crowd(slots=SLOTS, service_s=SERVICE_S, patience_s=PATIENCE_S, retries=2)
    crowd.arrivals(3 * CAPACITY_PER_S, 0, 30)
    crowd.arrivals(0.5 * CAPACITY_PER_S, 30, 80)
    crowd.run()
    calm = [visit for visit in crowd.visits if visit.arrived_s > 40]
    assert sum(visit.is_answered for visit in calm) >= 0.97 * len(calm)


def test_who_comes_back_when_told_is_let_in_and_nobody_is_sent_too_far() -> None:
    crowd = Crowd(
        AdmissionSettings(max_wait_s=5.0),
        service_s=SERVICE_S,
        patience_s=1e6,
        tells_deadline=False,
        retries=1,
    )
    crowd.arrivals(2.5, 0, 30)
    crowd.arrivals(7.5, 30, 50)
    before = 70.0
    crowd.burst(50, before)  # ten seconds of work, where five may wait
    crowd.run()
    refused = [visit for visit in crowd.visits if visit.arrived_s == before and visit.retry_after_s]
    assert len(refused) >= 15
    assert sum(visit.is_answered for visit in refused) >= 0.7 * len(refused)
    assert max(visit.retry_after_s[0] for visit in refused) <= 2 * 5.0 + 1
    assert max(crowd.good_s) - before <= 2 * 50 * SERVICE_S


def test_an_empty_cluster_lets_everybody_in_whatever_was_learned() -> None:
    gate, observer = taught(max_wait_s=0.5)
    with gate.admitted(ctx(remaining_s=0.1), ANSWER):
        pass
    assert observer.refusals == []


def test_the_wait_of_the_whole_cluster_counts() -> None:
    gate, observer = taught(max_wait_s=5.0)
    gate.heard(others(3, ANSWER))
    with gate.admitted(ctx(), ANSWER):
        pass
    gate.heard(others(9, ANSWER))
    with pytest.raises(Overloaded, match=r"generate has work for about 9\.0 s, and 5\.0 s") as refused:
        gate.admitted(ctx(), ANSWER).__enter__()
    assert refused.value.retry_after_s == pytest.approx(4, abs=1)
    assert [why for why, _, _ in observer.refusals] == [Refusal.WAIT]


def test_a_request_that_would_come_too_late_is_refused_at_once() -> None:
    gate, observer = taught()
    gate.heard(others(6, ANSWER))
    with gate.admitted(ctx(remaining_s=20), ANSWER):
        pass
    with pytest.raises(Overloaded, match="too long for an answer within"):
        gate.admitted(ctx(remaining_s=5), ANSWER).__enter__()
    assert [why for why, _, _ in observer.refusals] == [Refusal.DEADLINE]


def test_the_lane_batch_is_refused_first() -> None:
    gate, observer = taught(max_wait_s=6.0, batch_share=0.5)
    gate.heard(others(4, ANSWER))
    with gate.admitted(ctx(), ANSWER):
        pass
    with pytest.raises(Overloaded, match=r"3\.0 s are allowed"):
        gate.admitted(ctx(Lane.BATCH), ANSWER).__enter__()
    assert [lane for _, lane, _ in observer.refusals] == [Lane.BATCH]


def test_what_is_in_flight_is_bounded_before_anything_is_learned() -> None:
    gate = Gate(AdmissionSettings(max_in_flight=2), FakeAdmissionObserver())
    words = "2 requests are being answered"
    with (
        gate.admitted(ctx(), ANSWER),
        gate.admitted(ctx(), ANSWER),
        pytest.raises(Overloaded, match=words),
    ):
        gate.admitted(ctx(), ANSWER).__enter__()
    with gate.admitted(ctx(), ANSWER):
        pass


def test_a_refusal_holds_nothing() -> None:
    gate, _ = taught(max_wait_s=1.0)
    gate.heard(others(9, ANSWER))
    for _ in range(100):
        with pytest.raises(Overloaded):
            gate.admitted(ctx(), ANSWER).__enter__()
    assert gate.load().requests == 0
    assert gate.load().demand == {}


def test_a_stage_that_refuses_by_itself_gets_its_retry_after_here() -> None:
    gate, _ = taught()
    gate.heard(others(5, ANSWER))
    with pytest.raises(Overloaded) as refused, gate.admitted(ctx(), ANSWER):
        raise Overloaded("the evaluator is busy")
    assert refused.value.retry_after_s == 5


def test_a_server_so_slow_that_nobody_is_answered_is_noticed() -> None:
    crowd = Crowd(slots=1, service_s=30.0, patience_s=5.0, tells_deadline=False)
    crowd.arrivals(2.0, 0, 120)
    crowd.run()
    assert crowd.refused > 0.5 * len(crowd.visits)


@pytest.mark.parametrize("ends_with", [None, StageTimedOut("late"), asyncio.CancelledError()])
def test_requests_beside_the_answers_teach_nothing_however_they_end(
    ends_with: BaseException | None,
) -> None:
    now_s = 0.0
    gate = Gate(AdmissionSettings(), FakeAdmissionObserver(), clock=lambda: now_s)
    for _ in range(20):
        with gate.admitted(ctx(), ANSWER) as ticket:
            ticket.took({Stage.GENERATE: 0.2, SERVING: 0.01})
    for held in (0, 3):
        gate.heard(others(held, BESIDE))
        for _ in range(40):
            with suppress(StageTimedOut, asyncio.CancelledError), gate.admitted(ctx(), BESIDE):
                now_s += 8.0
                if ends_with is not None:
                    raise ends_with
    gate.heard(others(3, BESIDE))
    with gate.admitted(ctx(remaining_s=2.0), ANSWER) as ticket:
        assert ticket.prediction.seconds < 0.3
    assert gate._patience.seconds == Patience().seconds


def test_out_of_reach_the_others_are_taken_to_hold_what_this_one_does() -> None:
    gate, _ = taught(max_wait_s=5.0)
    gate.heard(others(0, ANSWER, ingresses=2))
    with gate.admitted(ctx(), ANSWER), gate.admitted(ctx(), ANSWER):
        gate.lost()
        with pytest.raises(Overloaded, match=r"about 6\.0 s"):
            gate.admitted(ctx(), ANSWER).__enter__()


def test_who_hangs_up_sooner_than_an_idle_server_answers_says_nothing_of_waiting() -> None:
    gate, _ = taught()
    for _ in range(30):
        with pytest.raises(asyncio.CancelledError), gate.admitted(ctx(), ANSWER):
            raise asyncio.CancelledError
    gate.heard(others(3, ANSWER))
    with gate.admitted(ctx(), ANSWER):
        pass
