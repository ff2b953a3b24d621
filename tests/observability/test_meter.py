"""A meter's bounds hold whatever it is told."""

import pytest
from prometheus_client import CollectorRegistry

from deployments.observability.declaring import OTHER, Counter, Gauge, Histogram, Label
from deployments.observability.exporters import ClientExporter, NoExporter
from deployments.observability.meter import Meter

CLOSED = Label.of("closed", ("a", "b"))
OPEN = Label("open", at_most=2)
COUNTER = Counter(name="test_things", help="Things.", labels=(CLOSED, OPEN))
SECONDS = Histogram(name="test_seconds", help="Seconds.", buckets=(1.0, 2.0), labels=(OPEN,))
LEVEL = Gauge(name="test_level", help="Level.")


@pytest.fixture
def registry() -> CollectorRegistry:
    return CollectorRegistry()


@pytest.fixture
def meter(registry: CollectorRegistry) -> Meter:
    return Meter(ClientExporter(registry))


def test_what_is_recorded_is_exported(registry: CollectorRegistry, meter: Meter) -> None:
    meter.count(COUNTER, closed="a", open="x")
    meter.count(COUNTER, 2, open="x", closed="a")
    meter.count(COUNTER, 0, closed="b", open="x")
    meter.show(LEVEL, 3.5)
    meter.observe(SECONDS, 1.5, open="x")
    value = registry.get_sample_value
    assert value("test_things_total", {"closed": "a", "open": "x"}) == 3
    assert value("test_things_total", {"closed": "b", "open": "x"}) is None
    assert value("test_level") == 3.5
    assert value("test_seconds_bucket", {"open": "x", "le": "2.0"}) == 1
    assert meter.series == 1 + 1 + (2 + 3)


def test_totals_are_exported_as_steps(registry: CollectorRegistry, meter: Meter) -> None:
    for total in (2, 2, 5):
        meter.count_to(COUNTER, total, closed="a", open="x")
    meter.count_to(COUNTER, 7, closed="b", open="x")
    assert registry.get_sample_value("test_things_total", {"closed": "a", "open": "x"}) == 5
    assert registry.get_sample_value("test_things_total", {"closed": "b", "open": "x"}) == 7


def test_a_value_that_was_not_declared_is_another(registry: CollectorRegistry, meter: Meter) -> None:
    for number in range(1000):
        meter.count(COUNTER, closed=f"../../{number}", open="x")
    assert registry.get_sample_value("test_things_total", {"closed": OTHER, "open": "x"}) == 1000
    assert meter.series == 1
    assert meter.refused == 1000


def test_an_open_label_takes_so_many_values(registry: CollectorRegistry, meter: Meter) -> None:
    for number in range(1000):
        meter.observe(SECONDS, 1.0, open=str(number))
    assert registry.get_sample_value("test_seconds_count", {"open": "1"}) == 1
    assert registry.get_sample_value("test_seconds_count", {"open": OTHER}) == 998
    assert meter.series == 3 * (2 + 3)


def test_no_metric_has_more_series_than_its_own_bound(meter: Meter) -> None:
    wide = Counter(
        name="test_wide",
        help="Wide.",
        labels=(Label("x", at_most=100), Label("y", at_most=100)),
        max_series=50,
    )
    for number in range(10_000):
        meter.count(wide, x=str(number % 100), y=str(number // 100))
    assert meter.series == 50 + 1


@pytest.mark.parametrize("labels", [{"closed": "a"}, {"closed": "a", "open": "x", "more": "y"}])
def test_labels_are_those_of_the_declaration(meter: Meter, labels: dict[str, str]) -> None:
    with pytest.raises(KeyError):
        meter.count(COUNTER, **labels)


def test_switched_off_it_counts_nothing() -> None:
    meter = Meter(NoExporter())
    meter.count(COUNTER, closed="a", open="x")
    meter.show(LEVEL, 1.0)
