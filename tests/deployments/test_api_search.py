import asyncio
from dataclasses import replace
from typing import Any

import pytest

from crag_core.errors import CragError, SearchFailed, StageUnavailable
from crag_core.types import Document, DocumentSource, Strategy
from deployments.settings import ApiSettings
from tests.deployments.application import Application, refusal
from tests.fakes import FakeEvaluator, FakeSearcher

PAGE = Document(
    "wikipedia:7",
    "Jaws is a film directed by Steven Spielberg.",
    "Jaws (film)",
    DocumentSource.WIKIPEDIA,
    "https://en.wikipedia.org/wiki/Jaws_(film)",
    "12",
)
OTHER = Document("wikipedia:8", "Jaws is a novel.", "Jaws (novel)", DocumentSource.WIKIPEDIA)


async def search(searcher: FakeSearcher, body: Any = None, **more: Any) -> Any:
    application = Application(searcher=searcher, **more)
    return await application.post("/v1/search", body or {"question": "Who directed Jaws?"})


async def test_pages_come_with_the_way_that_led_to_them() -> None:
    searcher = FakeSearcher([PAGE])
    response = await search(searcher)
    assert response.status_code == 200
    body = response.json()
    assert body["results"] == [
        {
            "document_id": "wikipedia:7",
            "title": "Jaws (film)",
            "url": PAGE.url,
            "revision": "12",
            "source": "wikipedia",
            "strategy": "direct",
            "query": "Feilden",
            "score": None,
            "text": PAGE.text,
        }
    ]
    assert body["queries"][0]["reason"] == "X's P"
    assert (body["requests"], body["degraded"], body["same_name"]) == (1, [], [])
    assert not searcher.sought[0].is_query


async def test_older_copies_of_pages_are_named() -> None:
    body = (await search(FakeSearcher([replace(PAGE, is_stale=True), OTHER]))).json()
    assert len(body["results"]) == 2
    assert body["degraded"] == [{"stage": "search", "reason": "search_stale"}]


async def test_a_query_is_passed_on_as_it_is() -> None:
    searcher = FakeSearcher()
    response = await search(searcher, {"query": " Jaws film ", "limit": 3})
    assert response.json()["results"] == []
    assert (searcher.sought[0].text, searcher.sought[0].is_query) == ("Jaws film", True)


async def test_other_pages_of_the_name_are_told() -> None:
    searcher = FakeSearcher([PAGE, OTHER], strategy=Strategy.DISAMBIGUATION)
    response = await search(searcher, evaluator=FakeEvaluator({PAGE.text: 0.9}, default=-0.9))
    body = response.json()
    assert [(page["title"], page["score"]) for page in body["results"]] == [("Jaws (film)", 0.9)]
    assert body["same_name"] == ["Jaws (novel)"]


async def test_limit_holds() -> None:
    response = await search(FakeSearcher([PAGE, OTHER]), {"question": "Who?", "limit": 1})
    assert len(response.json()["results"]) == 1


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ({"limit": 3}, (422, "invalid_request", None)),
        ({"question": "Who?", "query": "Who"}, (422, "invalid_request", None)),
        ({"question": " "}, (422, "invalid_question", "question")),
        ({"query": ""}, (422, "invalid_question", "query")),
        ({"query": "x" * 4_001}, (422, "invalid_question", "query")),
        ({"query": "x", "limit": 0}, (422, "invalid_request", "limit")),
        ({"query": "x", "limit": 21}, (422, "invalid_request", "limit")),
        ({"question": "Who?", "source": "web"}, (400, "unsupported_field", "source")),
    ],
)
async def test_mistakes_are_named(body: Any, expected: tuple[int, str, str | None]) -> None:
    searcher = FakeSearcher()
    assert refusal(await search(searcher, body)) == expected
    assert searcher.sought == []


@pytest.mark.parametrize(
    ("outage", "expected"),
    [
        (SearchFailed("down"), (502, "search_failed", None)),
        (StageUnavailable("no replica"), (503, "stage_unavailable", None)),
    ],
)
async def test_an_outage_is_an_error_and_no_empty_result(
    outage: CragError, expected: tuple[int, str, str | None]
) -> None:
    assert refusal(await search(FakeSearcher(error=outage))) == expected


async def test_the_deadline_holds_here_too() -> None:
    evaluator = FakeEvaluator(hang=True)
    searcher = FakeSearcher([PAGE, OTHER], strategy=Strategy.DISAMBIGUATION)
    response = await asyncio.wait_for(
        search(searcher, evaluator=evaluator, settings=ApiSettings(default_timeout_s=0.05)), 1
    )
    assert refusal(response) == (504, "stage_timed_out", None)
