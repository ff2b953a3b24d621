"""Workloads: what the server accepts, in the mix that was promised, the same from the same seed."""

import json
from collections import Counter
from pathlib import Path
from statistics import fmean
from typing import Any

import pytest

from benchmarks.load.settings import LoadSettings
from benchmarks.load.workloads import Kind, Prepared, Workload, WorkloadName, workload
from crag_core.actions import trigger_action
from crag_core.settings import ActionThresholds
from deployments.api.schemas.answer import AnswerRequest
from deployments.api.schemas.explain import ExplainRequest
from deployments.api.schemas.openai import ChatRequest
from deployments.api.schemas.rerank import RerankRequest

MADE_UP = [name for name in WorkloadName if name is not WorkloadName.DATA]
SCHEMAS = {
    Kind.ANSWER: AnswerRequest,
    Kind.CHAT: ChatRequest,
    Kind.RERANK: RerankRequest,
    Kind.EXPLAIN: ExplainRequest,
}


def made(name: WorkloadName, seed: int = 0, **more: Any) -> Workload:
    return workload(LoadSettings.model_validate({"workload": {"name": name, **more}, "seed": seed}))


def body_of(prepared: Prepared) -> Any:
    return json.loads(prepared.body)


@pytest.mark.parametrize("name", MADE_UP)
def test_a_request_depends_on_seed_and_number_alone(name: WorkloadName) -> None:
    one, other, another = made(name, 4), made(name, 4), made(name, 5)
    forwards = [one.request(number) for number in range(20)]
    backwards = [other.request(number) for number in reversed(range(20))]
    assert forwards == backwards[::-1]
    assert forwards != [another.request(number) for number in range(20)]


@pytest.mark.parametrize("name", MADE_UP)
@pytest.mark.parametrize("is_streamed", [False, True])
def test_the_api_accepts_every_request(name: WorkloadName, is_streamed: bool) -> None:
    load = made(name, is_streamed=is_streamed, max_new_tokens=20)
    prepared = [load.request(number) for number in range(30)]
    prepared += [load.background(number) for number in range(3)] if load.background else []
    for one in prepared:
        SCHEMAS[one.kind].model_validate_json(one.body)
    assert {one.is_streamed for one in prepared if one.kind in (Kind.ANSWER, Kind.CHAT)} <= {is_streamed}


@pytest.mark.parametrize(
    ("name", "shares"),
    [
        (WorkloadName.W2, {"correct": 0.544, "ambiguous": 0.274, "incorrect": 0.182}),
        (WorkloadName.W6, {"correct": 0.117, "ambiguous": 0.883}),
    ],
)
def test_thresholds_force_the_actions_in_their_shares(
    name: WorkloadName, shares: dict[str, float]
) -> None:
    load, found = made(name), Counter[str]()
    for number in range(1_500):
        options = body_of(load.request(number))["options"]
        thresholds = ActionThresholds(**options["thresholds"])
        actions = {str(trigger_action([score], thresholds)) for score in (-12.0, 0.0, 12.0)}
        assert len(actions) == 1
        found += Counter(actions)
    assert set(found) == set(shares)
    for action, share in shares.items():
        assert found[action] / 1_500 == pytest.approx(share, abs=0.04)


def test_w1_scores_ten_passages_and_w4_one() -> None:
    assert len(body_of(made(WorkloadName.W1).request(0))["documents"]) == 10
    assert len(body_of(made(WorkloadName.W4).request(0))["documents"]) == 1


def test_documents_are_as_long_as_biographies() -> None:
    load = made(WorkloadName.W2)
    texts = [text for number in range(100) for text in body_of(load.request(number))["documents"]]
    assert fmean(len(text.split()) for text in texts) == pytest.approx(108, rel=0.05)


def test_no_pair_of_question_and_document_comes_twice_but_in_w3() -> None:
    def pairs(name: WorkloadName) -> list[tuple[str, str]]:
        bodies = [body_of(made_.request(number)) for made_ in [made(name)] for number in range(300)]
        return [(body["question"], text) for body in bodies for text in body["documents"]]

    unique = pairs(WorkloadName.W2)
    assert len(set(unique)) == len(unique)
    skewed = pairs(WorkloadName.W3)
    assert len(set(skewed)) < 0.8 * len(skewed)


def test_w3_asks_popular_questions_often_and_always_alike() -> None:
    load, bodies = made(WorkloadName.W3), dict[str, bytes]()
    asked = Counter[str]()
    for number in range(2_000):
        prepared = load.request(number)
        question = body_of(prepared)["question"]
        assert bodies.setdefault(question, prepared.body) == prepared.body
        asked[question] += 1
    harmonic = sum(rank**-1.1 for rank in range(1, 1_001))
    assert asked.most_common(1)[0][1] / 2_000 == pytest.approx(1 / harmonic, abs=0.03)
    words = [len(text.split()) for body in bodies.values() for text in json.loads(body)["documents"]]
    assert min(words) < 20 and max(words) > 300


def test_w5_has_a_background_of_explanations() -> None:
    load = made(WorkloadName.W5)
    assert load.background is not None and made(WorkloadName.W2).background is None
    prepared = load.background(0)
    assert prepared.is_background and prepared.kind is Kind.EXPLAIN
    assert set(body_of(prepared)) == {"question", "passage"}
    assert load.background(1).body != prepared.body


def test_one_client_in_ten_hangs_up_in_w8_and_none_elsewhere() -> None:
    def leaving(name: WorkloadName) -> list[float]:
        load = made(name, hang_up_within_s=3.0)
        moments = (load.request(number).hang_up_after_s for number in range(1_000))
        return [moment for moment in moments if moment is not None]

    moments = leaving(WorkloadName.W8)
    assert len(moments) == pytest.approx(100, abs=30)
    assert min(moments) >= 0 and 2.5 < max(moments) <= 3.0
    assert leaving(WorkloadName.W2) == []


def test_a_question_set_is_asked_once_a_lap_with_its_documents(tmp_path: Path) -> None:
    rows = [
        {"id": "1", "question": "Who?", "internal": [{"title": None, "text": "He."}]},
        {"id": "2", "claim": "It is."},
        {"id": "3", "question": "Which?", "choices": [{"label": c, "text": c} for c in "AB"]},
    ]
    (tmp_path / "set.jsonl").write_text("\n".join(map(json.dumps, rows)), "utf-8")
    load = made(WorkloadName.DATA, data=tmp_path, data_name="set", with_documents=True)
    laps = [[load.request(3 * lap + place) for place in range(3)] for lap in range(6)]
    for lap in laps:
        assert {body_of(one)["question"] for one in lap} == {"Who?", "It is.", "Which?"}
        for one in lap:
            AnswerRequest.model_validate_json(one.body)
    assert len({tuple(one.body for one in lap) for lap in laps}) > 1, "each lap in its own order"
    by_question = {body_of(one)["question"]: body_of(one) for one in laps[0]}
    assert by_question["Who?"]["documents"] == [{"text": "He.", "title": ""}]
    assert by_question["It is."]["task"] == "claim" and by_question["Which?"]["task"] == "choice"


def test_a_row_without_a_question_is_named(tmp_path: Path) -> None:
    (tmp_path / "set.jsonl").write_text('{"question": "Who?"}\n{"answer": 1}\n', "utf-8")
    with pytest.raises(ValueError, match="row 2 of set"):
        made(WorkloadName.DATA, data=tmp_path, data_name="set")
