"""The application in one process: the wiring of Ray Serve's, its HTTP layer, and no cluster."""

import asyncio
import json
from collections.abc import AsyncIterator, Sequence
from dataclasses import replace
from pathlib import Path

import httpx
import pytest
import ray

from benchmarks.overhead.instant_app import LEAVES, Evaluator, documents
from crag_core.compact.types import ExtractedAnswer, ScoredPair
from crag_core.explaining import InputPieces, Piece, Side
from crag_core.types import DocumentSource, Score
from deployments.app import wired
from deployments.in_process import InProcess, without_access
from deployments.local import app_settings, load_config
from deployments.messages import ExtractRequest, MaskedRequest, PiecesRequest, RetrievePairsRequest
from deployments.records.record import DecisionRecord
from deployments.records.replay import differences
from deployments.settings import AppSettings, RecordSettings
from tests.compact_fakes import pair

ROOT = Path(__file__).parents[2]


class MaskableEvaluator(Evaluator):
    """Reads a pair as two pieces; each that is kept adds 1."""

    async def pieces(self, request: PiecesRequest) -> InputPieces:
        sides = ((Side.QUESTION, request.question), (Side.PASSAGE, request.passage.text))
        return InputPieces(tuple(Piece(side, 0, len(text), text) for side, text in sides), False)

    async def evaluate_masked(self, request: MaskedRequest) -> Sequence[Score]:
        return [float(kept.bit_count()) for kept in request.kept]


class Pairs:
    """Finds one pair for any query."""

    def __init__(self, settings: object) -> None:
        self._found = (ScoredPair(pair("Who built it?", "J. K. Stevenson"), 0.9),)

    async def retrieve_pairs(self, request: RetrievePairsRequest) -> Sequence[Sequence[ScoredPair]]:
        return [self._found for _ in request.queries]


class HopReader:
    """Reads the answer of the best pair."""

    def __init__(self, settings: object) -> None:
        pass

    async def extract(self, request: ExtractRequest) -> Sequence[ExtractedAnswer]:
        return [ExtractedAnswer(each.pairs[0].pair.answer, 0, 1.0) for each in request.readings]


def embedded() -> AppSettings:
    return app_settings(load_config(ROOT / "configs" / "embedded.yaml"))


async def opened(settings: AppSettings, **leaves: type) -> AsyncIterator[httpx.AsyncClient]:
    hosting = InProcess()
    ingress = wired(without_access(settings), replace(LEAVES, **leaves), hosting)
    await hosting.started()
    transport = httpx.ASGITransport(ingress.replica.api())
    async with httpx.AsyncClient(transport=transport, base_url="http://in-process") as client:
        yield client


@pytest.fixture
async def client() -> AsyncIterator[httpx.AsyncClient]:
    async for client in opened(embedded().model_copy(update={"compact": None})):
        yield client


@pytest.fixture
async def recording() -> AsyncIterator[httpx.AsyncClient]:
    """An application of every pipeline that keeps decision records."""
    settings = embedded()
    kept = settings.observability.model_copy(update={"records": RecordSettings(max_answers=9)})
    settings = settings.model_copy(update={"observability": kept})
    leaves = {"evaluator": MaskableEvaluator, "pairs": Pairs, "hop_reader": HopReader}
    async for client in opened(settings, **leaves):
        yield client


async def asked_and_recorded(client: httpx.AsyncClient, pipeline: str) -> tuple[str, bytes]:
    """The id of an answer, and its decision record."""
    body = {"question": "Who built the lighthouse?", "pipeline": pipeline}
    answer = (await client.post("/v1/answer", json=body)).json()
    await asyncio.sleep(0)  # it is kept in a task of its own
    found = await client.get(f"/v1/answers/{answer['id']}")
    assert found.status_code == 200, found.text
    return answer["id"], found.content


@pytest.mark.parametrize("pipeline", ["crag", "rag", "no_retrieval"])
async def test_a_pipeline_answers_without_a_cluster(client: httpx.AsyncClient, pipeline: str) -> None:
    response = await client.post("/v1/answer", json={"question": "Who?", "pipeline": pipeline})
    assert response.status_code == 200, response.text
    answer = response.json()
    assert answer["answer"] and answer["pipeline"] == pipeline
    assert answer["action"] == ("ambiguous" if pipeline == "crag" else None)
    assert not ray.is_initialized()


async def test_errors_are_those_of_the_api(client: httpx.AsyncClient) -> None:
    response = await client.post("/v1/answer", json={"question": "Who?", "pipeline": "compact"})
    assert (response.status_code, response.json()["error"]["code"]) == (404, "pipeline_not_configured")


@pytest.mark.parametrize("pipeline", ["crag", "rag", "no_retrieval", "compact"])
async def test_every_pipeline_s_answer_has_a_record_that_replays(
    recording: httpx.AsyncClient, pipeline: str
) -> None:
    _, content = await asked_and_recorded(recording, pipeline)
    record = DecisionRecord.from_json(content)
    assert record.answer.pipeline == pipeline
    assert await differences(record) == []


async def test_a_record_of_compact_holds_its_sub_questions(recording: httpx.AsyncClient) -> None:
    _, content = await asked_and_recorded(recording, "compact")
    (hop,) = json.loads(content)["answer"]["trace"]["hops"]
    assert (hop["asked"], hop["answer"]) == ("Who built the lighthouse?", "J. K. Stevenson")


async def test_a_score_of_a_past_answer_is_explained_by_the_answer_s_id(
    recording: httpx.AsyncClient,
) -> None:
    answer_id, _ = await asked_and_recorded(recording, "crag")
    document, *_ = documents(1, DocumentSource.CORPUS)
    body = {"answer_id": answer_id, "document_id": document.id, "unit": "token"}
    response = await recording.post("/v1/explain", json=body)
    assert response.status_code == 200, response.text
    explanation = response.json()
    values = {token["text"]: token["value"] for token in explanation["tokens"]}
    assert explanation["base_value"] == 0
    assert values == {"Who built the lighthouse?": 1, document.text: 1}
    unscored = await recording.post("/v1/explain", json={**body, "document_id": "wikipedia:0"})
    assert (unscored.status_code, unscored.json()["error"]["code"]) == (404, "answer_not_found")
