"""The replicas and the graph of pipeline `compact`, without Ray: what crosses, and what is refused."""

import asyncio
import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from crag_core.compact.types import AtomicQA, Reading, Rewriting, ScoredPair
from crag_core.errors import PipelineNotConfigured, StageTimedOut
from crag_core.protocols import Ask
from crag_core.settings import CragSettings
from crag_core.types import Answer, PipelineName, Question
from deployments.atomic_qa_retriever import AtomicQARetriever
from deployments.backends.indexes.index_builder import build_index
from deployments.backends.indexes.index_rows import ATOMIC_QA
from deployments.compact_graph import CompactGraph
from deployments.hop_reader import HopReader
from deployments.messages import (
    ExtractRequest,
    PipelineRequest,
    RetrievePairsRequest,
    RewriteRequest,
    WireContext,
)
from deployments.settings import (
    AtomicQASettings,
    CompactAppSettings,
    EncoderSettings,
    GeneratorSettings,
    HopReaderSettings,
    RecordSettings,
)
from tests.compact_fakes import FakeExtractor, FakeQARetriever, FakeRewriter, ScriptedGenerator, pair
from tests.deployments.index_files import write_lines
from tests.fakes import FakeRetriever, context

ROOT = Path(__file__).parents[2]
ENTITIES = str(ROOT / ".models/en-core-web-sm")
MINILM = str(ROOT / ".models/all-minilm-l6-v2")
READING = Reading(
    "Who directed Jaws?", (ScoredPair(AtomicQA("1", "Who?", "Steven Spielberg", "p"), 1.0),)
)


@dataclass
class HopReading(FakeExtractor, FakeRewriter):
    """Extractor and rewriter in one, as the replica's client is."""


def wire(remaining_s: float = 60.0) -> WireContext:
    return WireContext.of(context(remaining_s))


async def test_the_hop_reader_reads_in_time_or_not_at_all() -> None:
    reader = HopReader(HopReaderSettings(entities=ENTITIES))  # type: ignore[call-arg]
    (found,) = await reader.extract(ExtractRequest(wire(), (READING,)))
    assert found is not None and found.text == "Steven Spielberg"
    assert await reader.rewrite(RewriteRequest(wire(), (Rewriting("He?", "Ohio"),))) == [None]
    with pytest.raises(StageTimedOut):
        await reader.extract(ExtractRequest(wire(0), (READING,)))
    with pytest.raises(StageTimedOut):
        await reader.rewrite(RewriteRequest(wire(0), (Rewriting("He?", "Ohio"),)))


@dataclass
class HeldModels:
    """Read nothing, and not before they are let go; they know how many read at once."""

    has_begun: threading.Event = field(default_factory=threading.Event)
    go: threading.Event = field(default_factory=threading.Event)
    begun: list[Sequence[Reading]] = field(default_factory=list)
    inside: int = 0
    most: int = 0

    def extract(self, readings: Sequence[Reading]) -> Sequence[None]:
        self.begun.append(readings)
        self.inside += 1
        self.most = max(self.most, self.inside)
        self.has_begun.set()
        assert self.go.wait(60)
        self.inside -= 1
        return [None] * len(readings)


async def test_a_model_is_never_entered_twice_and_whoever_has_left_does_not_enter_it() -> None:
    reader = HopReader(HopReaderSettings(entities=ENTITIES))  # type: ignore[call-arg]
    models = HeldModels()
    reader._models = models  # type: ignore[assignment]

    def extracting(remaining_s: float = 60.0) -> asyncio.Task[Any]:
        return asyncio.create_task(reader.extract(ExtractRequest(wire(remaining_s), (READING,))))

    gone = extracting()
    await asyncio.to_thread(models.has_begun.wait)
    gone.cancel()
    late, leaves, waits = extracting(0.05), extracting(), extracting()
    await asyncio.sleep(0.1)
    leaves.cancel()
    await asyncio.wait([gone, leaves])
    models.go.set()
    assert await waits == [None]
    with pytest.raises(StageTimedOut):
        await late
    assert gone.cancelled() and leaves.cancelled()
    assert (models.most, len(models.begun)) == (1, 2)


async def test_the_base_answers_every_query_of_a_level_in_one_call(tmp_path: Path) -> None:
    from deployments.backends.dense_encoder import DenseEncoder

    encoder = EncoderSettings(model=MINILM)  # type: ignore[call-arg]
    rows = [
        {"question": f"Who is number {n}?", "answer": f"Person {n}", "passage_id": f"p{n}", "text": "x"}
        for n in range(5)
    ]
    lines = write_lines(tmp_path / "pairs.jsonl", rows)
    build_index([lines], tmp_path / "base", DenseEncoder(encoder), schema=ATOMIC_QA)
    replica = AtomicQARetriever(AtomicQASettings(index=str(tmp_path / "base"), encoder=encoder))  # type: ignore[call-arg]
    queries = ("Who is number 3?", "Who is number 4?")
    found = await replica.retrieve_pairs(RetrievePairsRequest(wire(), queries, 2))
    assert [pairs[0].pair.passage_id for pairs in found] == ["p3", "p4"]
    assert all(len(pairs) == 2 for pairs in found)
    with pytest.raises(StageTimedOut):
        await replica.retrieve_pairs(RetrievePairsRequest(wire(0), queries, 2))


async def test_the_graph_serves_compact_and_nothing_else() -> None:
    base = AtomicQASettings(index="unused", encoder=EncoderSettings(model="unused"))  # type: ignore[call-arg]
    settings = CompactAppSettings(knowledge_base=base)  # type: ignore[call-arg]
    graph = CompactGraph(
        FakeQARetriever(otherwise=[pair("Who directed Jaws?", "Steven Spielberg")]),
        HopReading(),
        FakeRetriever(),
        ScriptedGenerator(['[{"q": "Who directed Jaws?"}]', "Steven Spielberg"]),
        settings.pipeline,
        CragSettings(),
        GeneratorSettings(model=str(ROOT / ".models/smollm2-135m-instruct")),  # type: ignore[call-arg]
        RecordSettings(),
    )
    ask = Ask(Question("Who directed Jaws?"))
    request = PipelineRequest(wire(), PipelineName.COMPACT, ask)
    pieces = [piece async for piece in graph.stream(request)]
    assert isinstance(pieces[-1], Answer)
    assert pieces[-1].text == "Steven Spielberg"
    with pytest.raises(PipelineNotConfigured):
        await anext(graph.stream(PipelineRequest(wire(), PipelineName.CRAG, ask)))
