from collections.abc import AsyncGenerator

import pytest

from crag_core.baselines import NoRetrieval, Rag
from crag_core.errors import RetrievalFailed
from crag_core.generation import AnswerWriter
from crag_core.protocols import Ask
from crag_core.settings import AnswerOptions, CragSettings
from crag_core.types import Answer, Document, EvidenceQuality, PipelineName, Question
from tests.fakes import FakeGenerator, FakeRetriever, FakeTokenCounter, context

DOCUMENTS = tuple(Document(f"p{n}", f"Sentence number {n} of the corpus.", f"T{n}") for n in range(4))
QUESTION = Question("Which sentence?")


def rag(generator: FakeGenerator, retriever: FakeRetriever) -> Rag:
    return Rag(retriever, AnswerWriter(generator, FakeTokenCounter()), CragSettings())


async def last(stream: AsyncGenerator[str | Answer]) -> Answer:
    *texts, answer = [piece async for piece in stream]
    assert isinstance(answer, Answer)
    assert "".join(map(str, texts)) == answer.text
    return answer


async def test_rag_reads_the_first_documents_as_they_are() -> None:
    generator = FakeGenerator()
    ask = Ask(QUESTION, options=AnswerOptions(rag_documents=2))
    answer = await last(rag(generator, FakeRetriever(DOCUMENTS)).stream(context(), ask))
    assert [citation.document_id for citation in answer.citations] == ["p0", "p1"]
    assert [citation.score for citation in answer.citations] == [None, None]
    assert (answer.pipeline, answer.action) == (PipelineName.RAG, None)
    assert answer.evidence_quality is EvidenceQuality.WEAK
    assert "[2] T1: Sentence number 1" in generator.prompts[0].messages[-1].content


async def test_rag_takes_given_documents_and_skips_empty_ones() -> None:
    retriever = FakeRetriever(DOCUMENTS)
    ask = Ask(QUESTION, documents=(Document("a", " "), Document("b", "Some text.")))
    answer = await last(rag(FakeGenerator(), retriever).stream(context(), ask))
    assert [citation.document_id for citation in answer.citations] == ["b"]
    assert retriever.queries == []


async def test_rag_without_documents_answers_from_memory() -> None:
    answer = await last(rag(FakeGenerator(), FakeRetriever()).stream(context(), Ask(QUESTION)))
    assert (answer.citations, answer.evidence_quality) == ((), EvidenceQuality.NONE)


async def test_rag_surfaces_a_failed_retrieval() -> None:
    retriever = FakeRetriever(error=RetrievalFailed("index gone"))
    with pytest.raises(RetrievalFailed):
        await last(rag(FakeGenerator(), retriever).stream(context(), Ask(QUESTION)))


async def test_no_retrieval_asks_the_generator_alone() -> None:
    generator = FakeGenerator(("From ", "memory"))
    pipeline = NoRetrieval(AnswerWriter(generator, FakeTokenCounter()), CragSettings())
    answer = await last(pipeline.stream(context(), Ask(QUESTION)))
    assert (answer.text, answer.pipeline) == ("From memory", PipelineName.NO_RETRIEVAL)
    assert (answer.action, answer.citations) == (None, ())
    assert generator.prompts[0].messages[-1].content == "Question: Which sentence?"


async def test_closing_a_baseline_early_closes_the_generator() -> None:
    generator = FakeGenerator()
    stream = rag(generator, FakeRetriever(DOCUMENTS)).stream(context(), Ask(QUESTION))
    assert await anext(stream) == "A politician"
    await stream.aclose()
    assert generator.closed == 1
