"""What the API's requests become as metrics: through the real API, over fakes."""

import uuid
from dataclasses import replace

import pytest
from prometheus_client import CollectorRegistry

from crag_core.types import Document
from deployments.observability.answer_metrics import AnswerMetrics
from deployments.observability.exporters import ClientExporter
from deployments.observability.meter import Meter
from tests.deployments.application import POLITICIAN, Application
from tests.fakes import FakeEvaluator, FakeRetriever, FakeSearcher

SERIES_BUDGET_OF_THE_INGRESS = 600


@pytest.fixture
def registry() -> CollectorRegistry:
    return CollectorRegistry()


@pytest.fixture
def meter(registry: CollectorRegistry) -> Meter:
    return Meter(ClientExporter(registry))


@pytest.fixture
def application(meter: Meter) -> Application:
    return Application(observer=AnswerMetrics(meter))  # type: ignore[arg-type]


def total(registry: CollectorRegistry, name: str, **wanted: str) -> float:
    """The sum of all samples with these labels."""
    return sum(
        sample.value
        for family in registry.collect()
        for sample in family.samples
        if sample.name == name and wanted.items() <= sample.labels.items()
    )


async def test_an_answer_is_counted_with_its_decision_and_its_stages(
    registry: CollectorRegistry, application: Application
) -> None:
    await application.answer()
    ok = {"pipeline": "crag", "action": "correct", "outcome": "ok", "quality": "strong"}
    assert registry.get_sample_value("crag_answers_total", ok) == 1
    for stage in ("retrieve", "evaluate", "refine_internal", "generate"):
        assert registry.get_sample_value("crag_stage_seconds_count", {"stage": stage}) == 1
    assert total(registry, "crag_documents_total", zone="upper") == 1
    assert total(registry, "crag_strips_total", strips="kept") == 1
    assert total(registry, "crag_completions_total", pipeline="crag", result="ok") == 1
    assert total(registry, "crag_tokens_total", kind="prompt") > 0
    assert total(registry, "crag_searches_total") == 0


async def test_a_score_next_to_a_threshold_is_a_small_margin(
    registry: CollectorRegistry, application: Application
) -> None:
    near, empty = Document("d1", "Near."), Document("d2", "")
    thresholds = application.evaluator.thresholds
    distance = thresholds.upper - thresholds.lower
    application.evaluator = FakeEvaluator({near.text: thresholds.upper + 0.03 * distance})
    application.retriever = FakeRetriever((near, empty, replace(POLITICIAN, id="d3")))
    await application.answer()
    within = {"action": "correct", "le": "0.05"}
    assert registry.get_sample_value("crag_best_score_margin_bucket", within) == 1
    assert total(registry, "crag_best_score_margin_bucket", le="0.02") == 0
    assert total(registry, "crag_documents_total", zone="empty") == 1


async def test_a_search_is_counted_by_what_it_brought(
    registry: CollectorRegistry, application: Application
) -> None:
    await application.answer(documents=[])
    assert total(registry, "crag_searches_total") == 1


async def test_older_copies_of_pages_are_counted_as_what_was_given_up(
    registry: CollectorRegistry, application: Application
) -> None:
    application.searcher = FakeSearcher([replace(POLITICIAN, is_stale=True)])
    await application.answer(documents=[])
    assert total(registry, "crag_degraded_total", stage="search", reason="search_stale") == 1
    assert total(registry, "crag_degraded_answers_total") == 1
    assert total(registry, "crag_searches_total", result="found") == 1


async def test_a_refusal_is_counted_by_its_code(
    registry: CollectorRegistry, application: Application
) -> None:
    await application.answer(question="")
    refused = {"pipeline": "none", "action": "none", "outcome": "invalid_question", "quality": "none"}
    assert registry.get_sample_value("crag_answers_total", refused) == 1


async def test_hostile_requests_open_no_series(application: Application, meter: Meter) -> None:
    async with application.client() as client:
        for _ in range(3):
            await client.post("/v1/answer", json={"question": "Who?"})
        await client.post("/v1/answer", json={"question": "Who?", "pipeline": "compact"})
        await client.post("/v1/answer", json={"question": ""})
        await client.post("/v1/answer", json={"strange": 1})
        await client.post("/v1/answer", content=b"{", headers={"content-type": "application/json"})
        before = meter.series
        for _ in range(200):
            strange = uuid.uuid4().hex
            await client.get(f"/v1/{strange}")
            await client.post(f"/v1/answer/{strange}", json={"question": "Who?"})
            await client.post("/v1/answer", json={"question": "Who?", "pipeline": strange})
            await client.post("/v1/answer", json={strange: strange})
            await client.post(
                f"/v1/answer?{strange}={strange}",
                json={"question": strange},
                headers={"x-request-id": strange, "authorization": f"Bearer {strange}"},
            )
    assert meter.series <= before + 40, "an outcome not met before may open its series"
    assert meter.series < SERIES_BUDGET_OF_THE_INGRESS
