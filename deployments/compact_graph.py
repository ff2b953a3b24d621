"""The graph of CompactRAG: its stages wired by clients, nothing else."""

from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Protocol

from crag_core.compact.compact import Compact
from crag_core.compact.protocols import AnswerExtractor, QARetriever, SubQuestionRewriter
from crag_core.compact.resolution import Resolver
from crag_core.compact.settings import CompactSettings
from crag_core.errors import PipelineNotConfigured
from crag_core.generation import AnswerWriter
from crag_core.protocols import Generator, Pipeline, Retriever
from crag_core.settings import CragSettings
from crag_core.types import Answer, PipelineName
from deployments.messages import PipelineRequest
from deployments.observability.stage_times import working
from deployments.observability.tracing import stages_as_spans
from deployments.records.record import Models
from deployments.records.recorded import Recorded
from deployments.settings import GeneratorSettings, RecordSettings


class HopReading(AnswerExtractor, SubQuestionRewriter, Protocol):
    """Extractor and rewriter, which one replica holds."""


class CompactGraph:
    """Serves the pipeline `compact`."""

    def __init__(
        self,
        pairs: QARetriever,
        reader: HopReading,
        passages: Retriever,
        generator: Generator,
        settings: CompactSettings,
        crag: CragSettings,
        generator_settings: GeneratorSettings,
        records: RecordSettings,
    ) -> None:
        """Takes clients of the stages; `passages` is the corpus that stands in where no pair fits."""
        # imported here: the node that builds the application need not load what only a replica uses
        from deployments.backends.chat_template import ChatTemplate

        counter = ChatTemplate(generator_settings.model, generator_settings.revision)
        resolver = Resolver(pairs, reader, reader, settings, passages)
        self._compact: Pipeline = Compact(resolver, AnswerWriter(generator, counter), settings, crag)
        if records.max_answers:
            models = Models(generator_settings.model, generator_settings.revision)
            self._compact = Recorded(self._compact, crag, models, settings)

    async def stream(self, request: PipelineRequest) -> AsyncGenerator[str | Answer]:
        """Pieces of the synthesis, then the Answer."""
        if request.pipeline is not PipelineName.COMPACT:
            raise PipelineNotConfigured(f"pipeline {request.pipeline} is not served by this graph")
        ctx = request.context.localize()
        ctx.require_time(request.pipeline)
        with working(ctx, request.pipeline) as work:
            async with aclosing(self._compact.stream(work.ctx, request.ask)) as pieces:
                async for piece in pieces:
                    if isinstance(piece, Answer):
                        stages_as_spans(work.ctx, piece)
                    yield piece
