"""The declarations agree with each other, and with what the rest of the code calls things."""

import re
from collections import Counter as Tally
from enum import StrEnum

import pytest

from deployments.api import errors, observing
from deployments.backends.batching.batch_queue import Closed
from deployments.backends.wikipedia.budget import Outcome, Refusal
from deployments.backends.wikipedia.circuit_breaker import Circuit
from deployments.backends.wikipedia.pool_observer import CacheUse
from deployments.observability.declaring import Histogram, Kind, Label, Metric, Origin, Unit
from deployments.observability.metrics import evaluator, labels, search
from deployments.observability.registry import alerts, metrics, panels, recordings

METRICS = list(metrics())
OWN = [metric for metric in METRICS if metric.origin is not Origin.FOREIGN]


def test_every_name_is_declared_once() -> None:
    assert [name for name, times in Tally(metric.name for metric in METRICS).items() if times > 1] == []


@pytest.mark.parametrize("metric", OWN, ids=lambda metric: metric.name)
def test_names_end_in_their_unit(metric: Metric) -> None:
    assert metric.name.startswith("crag_")
    assert metric.help.endswith(".")
    assert not metric.name.endswith("_total"), "the exporter adds it"
    wanted = {Unit.SECONDS: "_seconds", Unit.BYTES: "_bytes"}.get(metric.unit, "")
    assert metric.name.endswith(wanted)


@pytest.mark.parametrize("metric", OWN, ids=lambda metric: metric.name)
def test_every_label_is_bounded(metric: Metric) -> None:
    assert all(label.values or 0 < label.at_most <= 100 for label in metric.labels)


def test_buckets_are_those_that_ray_takes() -> None:
    for metric in OWN:
        if isinstance(metric, Histogram):
            assert metric.buckets[0] > 0
            assert list(metric.buckets) == sorted(set(metric.buckets))


def test_every_metric_is_drawn_somewhere() -> None:
    drawn = " ".join(query.expression for panel in panels() for query in panel.queries)
    assert [metric.name for metric in METRICS if metric.exported not in drawn] == []


def test_panels_name_only_what_is_declared() -> None:
    for panel in panels():
        assert panel.queries and panel.unit is not None, panel.title
        assert all("METRIC" not in query.expression for query in panel.queries), panel.title
    titles = Tally((panel.dashboard, panel.title) for panel in panels())
    assert [title for title, times in titles.items() if times > 1] == []


@pytest.mark.parametrize(
    ("metric", "name", "words"),
    [
        (evaluator.BATCHES, "closed", Closed),
        (search.REQUESTS, "outcome", Outcome),
        (search.REFUSED, "reason", Refusal),
        (search.CACHE, "use", CacheUse),
        (search.CIRCUIT, "state", Circuit),
    ],
    ids=lambda value: getattr(value, "name", str(value)),
)
def test_labels_have_the_words_of_their_enumerations(
    metric: Metric, name: str, words: type[StrEnum]
) -> None:
    (label,) = (label for label in metric.labels if label.name == name)
    assert label == Label.of(name, words)


def test_every_outcome_that_a_client_can_cause_is_a_label_value() -> None:
    codes = (errors._CODE_OF_STATUS, errors._CODE_OF_VALIDATION, errors._CODE_OF_FIELD)
    caused = {code for by in codes for code in by.values()} | {errors.INVALID_REQUEST}
    assert caused | {observing.OK, observing.CLIENT_GONE} <= labels.OUTCOME.values


def test_counters_are_named_as_ray_exports_them() -> None:
    for metric in METRICS:
        assert metric.exported.endswith("_total") is (metric.kind is Kind.COUNTER)


def test_alerts_ask_only_for_what_is_declared() -> None:
    declared = {metric.exported for metric in METRICS} | {recorded.name for recorded in recordings()}
    for alert in alerts():
        asked = re.findall(r"\b(?:ray_|crag:)[\w:]+", alert.when)
        assert asked and {name.removesuffix("_bucket") for name in asked} <= declared, alert.name
