"""The baselines CRAG is measured against: vanilla RAG, and the generator alone."""

from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import dataclass

from crag_core.context import RequestContext
from crag_core.crag import retrieve
from crag_core.generation import AnswerWriter, Evidence
from crag_core.protocols import Ask, Retriever
from crag_core.settings import CragSettings
from crag_core.strips import excerpt
from crag_core.trace import Recorder
from crag_core.types import Answer, EvidenceQuality, Knowledge, PipelineName, ScoredStrip


@dataclass(frozen=True, slots=True)
class Rag:
    """Vanilla RAG: the first `rag_documents` documents as they are, no evaluator, no correction."""

    retriever: Retriever
    writer: AnswerWriter
    settings: CragSettings

    async def stream(self, ctx: RequestContext, ask: Ask) -> AsyncGenerator[str | Answer]:
        """Pieces of the answer, then the Answer; raises RetrievalFailed and GenerationFailed."""
        settings = self.settings.with_options(ask.options, ask.sampling)
        recorder = Recorder()
        limit = max(settings.retrieve_limit, settings.rag_documents)
        documents = await retrieve(ctx, ask, self.retriever, limit, recorder)
        max_words = settings.refinement.max_document_words
        strips = [excerpt(document, max_words) for document in documents if document.text.strip()]
        knowledge = Knowledge(
            internal=tuple(ScoredStrip(strip, None) for strip in strips[: settings.rag_documents])
        )
        evidence = Evidence(
            pipeline=PipelineName.RAG,
            knowledge=knowledge,
            documents={document.id: document for document in documents},
            quality=EvidenceQuality.WEAK,
        )
        async with aclosing(
            self.writer.write(ctx, ask.question, evidence, settings, recorder)
        ) as pieces:
            async for piece in pieces:
                yield piece


@dataclass(frozen=True, slots=True)
class NoRetrieval:
    """The generator alone, answering from memory."""

    writer: AnswerWriter
    settings: CragSettings

    async def stream(self, ctx: RequestContext, ask: Ask) -> AsyncGenerator[str | Answer]:
        """Pieces of the answer, then the Answer; raises GenerationFailed."""
        settings = self.settings.with_options(ask.options, ask.sampling)
        evidence = Evidence(pipeline=PipelineName.NO_RETRIEVAL)
        async with aclosing(
            self.writer.write(ctx, ask.question, evidence, settings, Recorder())
        ) as pieces:
            async for piece in pieces:
                yield piece
