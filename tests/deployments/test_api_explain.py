import asyncio
from dataclasses import dataclass, field

import pytest

from crag_core.context import Lane, RequestContext
from crag_core.errors import EvaluationFailed
from crag_core.explaining import ExplainAsk, Explanation
from crag_core.types import Passage
from deployments.explain_graph import ExplainGraph
from deployments.messages import ExplainRequest, WireContext
from deployments.settings import ApiSettings, ExplainSettings
from explainability.explaining import ScoreExplainer
from tests.deployments.application import Application, refusal
from tests.explainability.fakes import FakeMaskableEvaluator
from tests.fakes import context

QUESTION = "What is Henry Feilden's occupation?"
PASSAGE = "Henry Master Feilden was a Conservative politician."
BODY = {"question": QUESTION, "passage": PASSAGE}


def explaining(evaluator: FakeMaskableEvaluator | None = None) -> Application:
    return Application(explainer=ScoreExplainer(evaluator or FakeMaskableEvaluator()))


@dataclass
class HangingExplainer:
    """Never answers; says when it was cancelled."""

    asks: list[ExplainAsk] = field(default_factory=list)
    cancelled: int = 0

    async def explain(self, ctx: RequestContext, ask: ExplainAsk) -> Explanation:
        self.asks.append(ask)
        try:
            await asyncio.Event().wait()
        finally:
            self.cancelled += 1
        raise AssertionError


async def test_a_score_is_explained_token_by_token() -> None:
    response = await explaining().post("/v1/explain", BODY)
    assert response.status_code == 200
    found = response.json()
    assert found["score"] == pytest.approx(
        found["base_value"] + sum(token["value"] for token in found["tokens"])
    )
    assert found["tokens"][2] == {
        "text": "Henry", "side": "question", "start": 8, "end": 13, "value": pytest.approx(1.0),
    }  # fmt: skip
    assert found["classes"][0]["name"] == "entity_in_both"
    assert found["classes"][0]["tokens"] == [2, 3, 6, 8]
    assert (found["method"], found["unit"], found["truncated"]) == ("partition", "word", False)
    assert found["additivity_error"] < 1e-6 and found["evaluations"] > 2


async def test_it_runs_on_the_lane_of_explanations_and_as_was_asked() -> None:
    evaluator = FakeMaskableEvaluator()
    body = {
        "question": QUESTION,
        "passage": {"text": PASSAGE, "title": "Feilden"},
        "unit": "sentence",
        "method": "permutation",
        "max_evaluations": 20,
        "seed": 3,
        "timeout_s": 5,
    }
    response = await explaining(evaluator).post("/v1/explain", body)
    assert response.json()["method"] == "permutation"
    assert {ctx.lane for ctx in evaluator.contexts} == {Lane.EXPLAIN}
    assert all(ctx.remaining_s() < 5 for ctx in evaluator.contexts)
    assert evaluator.calls == [(QUESTION, (Passage(PASSAGE, "Feilden"),))]
    assert max(evaluator.asked_for) <= 20


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ({"question": QUESTION}, (422, "invalid_request", None)),
        ({**BODY, "answer_id": "a"}, (422, "invalid_request", None)),
        ({"answer_id": "a"}, (422, "invalid_request", None)),
        ({**BODY, "passage": " "}, (422, "invalid_request", "passage")),
        ({**BODY, "passage": "x" * 20_001}, (422, "invalid_request", "passage")),
        ({**BODY, "question": ""}, (422, "invalid_question", "question")),
        ({**BODY, "question": "x" * 4_001}, (422, "invalid_question", "question")),
        ({**BODY, "unit": "letter"}, (422, "invalid_request", "unit")),
        ({**BODY, "max_evaluations": 5_000}, (422, "invalid_request", "max_evaluations")),
        ({**BODY, "max_evaluations": 2}, (422, "invalid_request", "max_evaluations")),
        ({**BODY, "method": "exact"}, (422, "invalid_question", None)),
        ({**BODY, "timeout_s": 0}, (422, "invalid_timeout", "timeout_s")),
        ({**BODY, "document": "d"}, (400, "unsupported_field", "document")),
        ({"answer_id": "a", "document_id": "d"}, (404, "answer_not_found", None)),
    ],
)
async def test_mistakes_are_named(
    body: dict[str, object], expected: tuple[int, str, str | None]
) -> None:
    assert refusal(await explaining().post("/v1/explain", body)) == expected


async def test_without_a_graph_of_explanations_it_is_not_configured() -> None:
    response = await Application().post("/v1/explain", BODY)
    assert refusal(response) == (404, "explanations_not_configured", None)


async def test_a_failing_evaluator_is_a_failing_explanation() -> None:
    evaluator = FakeMaskableEvaluator(error=EvaluationFailed("a score that is no number"))
    response = await explaining(evaluator).post("/v1/explain", BODY)
    assert refusal(response) == (500, "evaluation_failed", None)


async def test_the_deadline_ends_it() -> None:
    explainer = HangingExplainer()
    response = await Application(explainer=explainer).post("/v1/explain", {**BODY, "timeout_s": 0.05})
    assert refusal(response) == (504, "stage_timed_out", None)
    assert explainer.cancelled == 1


@pytest.mark.parametrize(("remembered", "times_explained"), [(0, 2), (1, 1)])
async def test_the_graph_remembers_as_many_explanations_as_the_settings_say(
    remembered: int, times_explained: int
) -> None:
    evaluator = FakeMaskableEvaluator()
    graph = ExplainGraph(evaluator, ExplainSettings(remembered=remembered))  # type: ignore[call-arg]
    request = ExplainRequest(WireContext.of(context()), ExplainAsk(QUESTION, Passage(PASSAGE)))
    assert await graph.explain(request) == await graph.explain(request)
    assert len(evaluator.asked_for) == times_explained


async def test_limits_are_the_operators() -> None:
    application = Application(settings=ApiSettings(max_explained_characters=10))
    response = await application.post("/v1/explain", BODY)
    assert refusal(response) == (422, "invalid_request", "passage")
