import math

import pytest

from crag_core.errors import Overloaded
from deployments.admission.gate import Gate, Refusal
from deployments.admission.key_rates import KeyRates
from deployments.settings import AdmissionSettings
from tests.admission.crowd import ANSWER, others
from tests.fakes import FakeAdmissionObserver


class Rates:
    """Rates on a clock that the test moves."""

    def __init__(self, **settings: object) -> None:
        self.now_s = 0.0
        self.observer = FakeAdmissionObserver()
        wanted = AdmissionSettings.model_validate(settings)
        self.gate = Gate(wanted, self.observer)
        self.rates = KeyRates(wanted, self.gate, self.observer, clock=lambda: self.now_s)

    def sent(self, key: str, times: int, per_minute: int | None = None) -> int:
        """How many of so many requests pass."""
        passed = 0
        for _ in range(times):
            try:
                self.rates.take(key, per_minute)
            except Overloaded:
                continue
            passed += 1
        return passed


def test_without_a_limit_everything_passes() -> None:
    assert Rates().sent("the key a", 1000) == 1000


def test_a_key_has_its_burst_then_its_rate_and_no_other_key_pays_for_it() -> None:
    rates = Rates(requests_per_minute=60, burst=5)
    assert rates.sent("the key a", 20) == 5
    assert rates.sent("the key b", 20) == 5
    rates.now_s = 3.0
    assert rates.sent("the key a", 20) == 3
    assert {why for why, _, _ in rates.observer.refusals} == {Refusal.RATE}


def test_a_key_may_have_a_rate_of_its_own() -> None:
    rates = Rates(requests_per_minute=60, burst=1)
    rates.sent("the key a", 1, per_minute=600)
    rates.now_s = 1.0
    assert rates.sent("the key a", 20, per_minute=600) == 1
    rates.now_s = 1.1
    assert rates.sent("the key a", 20, per_minute=600) == 1


def test_the_refusal_says_when_the_next_one_may_come() -> None:
    rates = Rates(requests_per_minute=6, burst=1)
    rates.sent("the key a", 1)
    with pytest.raises(
        Overloaded, match=r"the key a may send 6 requests a minute: try again in 10 s"
    ) as e:
        rates.rates.take("the key a")
    rates.now_s += math.ceil(e.value.retry_after_s or 0.0)
    assert rates.sent("the key a", 1) == 1


def test_several_ingresses_grant_the_rate_together() -> None:
    rates = Rates(requests_per_minute=60, burst=4)
    rates.gate.heard(others(0, ANSWER, ingresses=3))
    assert rates.sent("the key a", 20) == 1
    rates.now_s = 4.0
    assert rates.sent("the key a", 20) == 1


def test_a_clock_that_stands_or_goes_back_grants_nothing() -> None:
    rates = Rates(requests_per_minute=60, burst=2)
    rates.now_s = 100.0
    assert rates.sent("the key a", 5) == 2
    rates.now_s = 0.0
    assert rates.sent("the key a", 5) == 0
