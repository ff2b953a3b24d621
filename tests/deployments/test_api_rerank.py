import asyncio

import pytest

from crag_core.errors import EvaluationFailed
from crag_core.types import Passage
from deployments.settings import ApiSettings
from tests.deployments.application import Application, refusal
from tests.fakes import FakeEvaluator

QUERY = "What is Henry Feilden's occupation?"


def length(text: str) -> float:
    return float(len(text))


async def test_documents_come_best_first_ties_in_order_and_empty_ones_last() -> None:
    application = Application(FakeEvaluator(length))
    body = {"query": QUERY, "documents": ["bb", "", "a", "cc", " ", "dddd"]}
    response = await application.post("/v1/rerank", body)
    assert response.status_code == 200
    assert response.json() == {
        "results": [
            {"index": 5, "relevance_score": 4.0},
            {"index": 0, "relevance_score": 2.0},
            {"index": 3, "relevance_score": 2.0},
            {"index": 2, "relevance_score": 1.0},
            {"index": 1, "relevance_score": None},
            {"index": 4, "relevance_score": None},
        ]
    }


async def test_negative_scores_stand_before_empty_documents() -> None:
    application = Application(FakeEvaluator(lambda text: -float(len(text))))
    body = {"query": QUERY, "documents": ["", "aaa", "a"]}
    results = (await application.post("/v1/rerank", body)).json()["results"]
    assert [result["index"] for result in results] == [2, 1, 0]


async def test_top_n_and_return_documents() -> None:
    application = Application(FakeEvaluator(length))
    body = {
        "query": f" {QUERY} ",
        "documents": ["a", {"text": "bb", "title": "B"}],
        "top_n": 1,
        "return_documents": True,
    }
    results = (await application.post("/v1/rerank", body)).json()["results"]
    assert results == [{"index": 1, "relevance_score": 2.0, "document": {"text": "bb", "title": "B"}}]
    assert application.evaluator.calls == [(QUERY, (Passage("a"), Passage("bb", "B")))]


async def test_ten_thousand_documents_are_one_evaluation() -> None:
    application = Application(FakeEvaluator(length))
    response = await application.post("/v1/rerank", {"query": QUERY, "documents": ["a"] * 10_000})
    assert len(response.json()["results"]) == 10_000
    assert len(application.evaluator.calls) == 1


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"documents": ["a"] * 10_001}, (422, "invalid_request", "documents")),
        ({"documents": ["a"] * 100_001}, (422, "invalid_request", "documents")),
        ({"documents": ["x" * 100_001]}, (422, "invalid_request", "documents.0.text")),
        ({"documents": None}, (422, "invalid_request", "documents")),
        ({"query": " "}, (422, "invalid_question", "query")),
        ({"query": "x" * 4_001}, (422, "invalid_question", "query")),
        ({"top_n": 0}, (422, "invalid_request", "top_n")),
        ({"texts": []}, (400, "unsupported_field", "texts")),
    ],
)
async def test_mistakes_are_named(
    fields: dict[str, object], expected: tuple[int, str, str | None]
) -> None:
    application = Application()
    body = {"query": QUERY, "documents": ["a"], **fields}
    assert refusal(await application.post("/v1/rerank", body)) == expected
    assert application.evaluator.calls == []


async def test_no_documents_give_no_results() -> None:
    response = await Application().post("/v1/rerank", {"query": QUERY, "documents": []})
    assert response.json() == {"results": []}


async def test_a_failed_evaluation_is_an_error_and_no_score() -> None:
    application = Application(FakeEvaluator(error=EvaluationFailed("out of memory")))
    response = await application.post("/v1/rerank", {"query": QUERY, "documents": ["a"]})
    assert refusal(response) == (500, "evaluation_failed", None)


async def test_the_deadline_holds_here_too() -> None:
    application = Application(FakeEvaluator(hang=True), settings=ApiSettings(default_timeout_s=0.05))
    body = {"query": QUERY, "documents": ["a"]}
    response = await asyncio.wait_for(application.post("/v1/rerank", body), 1)
    assert refusal(response) == (504, "stage_timed_out", None)


async def test_reranking_is_not_observed_as_an_answer() -> None:
    application = Application()
    await application.post("/v1/rerank", {"query": QUERY, "documents": ["a"]})
    assert application.observer.observations == []
