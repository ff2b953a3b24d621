"""The baselines CRAG is measured against: vanilla RAG, and the generator alone."""

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from dataclasses import dataclass

from crag_core.context import RequestContext
from crag_core.crag import retrieve
from crag_core.generation import AnswerWriter, Evidence
from crag_core.protocols import Ask, Retriever
from crag_core.settings import CragSettings
from crag_core.strips import excerpt
from crag_core.trace import Recorder
from crag_core.types import (
    Answer,
    Document,
    EvidenceQuality,
    Knowledge,
    PipelineName,
    ScoredStrip,
    Strip,
)


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
        read = [document for document in documents if document.text.strip()][: settings.rag_documents]
        strips = await asyncio.to_thread(_excerpts, read, settings.refinement.max_document_words)
        knowledge = Knowledge(internal=tuple(ScoredStrip(strip, None) for strip in strips))
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


def _excerpts(documents: Sequence[Document], max_words: int) -> list[Strip]:
    return [excerpt(document, max_words) for document in documents]
