"""The graph of the corrective pipeline and its baselines: stages wired by clients, nothing else."""

from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing

from crag_core.baselines import NoRetrieval, Rag
from crag_core.crag import Crag
from crag_core.errors import PipelineNotConfigured
from crag_core.generation import AnswerWriter
from crag_core.protocols import Evaluator, Generator, Pipeline, Retriever, Searcher
from crag_core.settings import CragSettings
from crag_core.types import Answer, PipelineName
from deployments.messages import PipelineRequest
from deployments.observability.stage_times import working
from deployments.observability.tracing import stages_as_spans
from deployments.records.record import Models
from deployments.records.recorded import Recorded
from deployments.settings import GeneratorSettings, RecordSettings


class CragGraph:
    """Serves the pipelines `crag`, `rag` and `no_retrieval`."""

    def __init__(
        self,
        retriever: Retriever,
        evaluator: Evaluator,
        searchers: Sequence[Searcher],
        generator: Generator,
        settings: CragSettings,
        generator_settings: GeneratorSettings,
        records: RecordSettings,
    ) -> None:
        """Takes clients of the four stages; the generator's own tokenizer counts the prompt."""
        # imported here: the node that builds the application need not load what only a replica uses
        from deployments.backends.chat_template import ChatTemplate

        counter = ChatTemplate(generator_settings.model, generator_settings.revision)
        writer = AnswerWriter(generator, counter)
        self._pipelines: dict[PipelineName, Pipeline] = {
            PipelineName.CRAG: Crag(retriever, evaluator, searchers, writer, settings),
            PipelineName.RAG: Rag(retriever, writer, settings),
            PipelineName.NO_RETRIEVAL: NoRetrieval(writer, settings),
        }
        if records.max_answers:
            models = Models(generator_settings.model, generator_settings.revision)
            self._pipelines = {
                name: Recorded(pipeline, settings, models) for name, pipeline in self._pipelines.items()
            }

    async def stream(self, request: PipelineRequest) -> AsyncGenerator[str | Answer]:
        """Pieces of the answer, then the Answer."""
        ctx = request.context.localize()
        ctx.require_time(request.pipeline)
        pipeline = self._pipelines.get(request.pipeline)
        if pipeline is None:
            raise PipelineNotConfigured(f"pipeline {request.pipeline} is not served by this graph")
        with working(ctx, request.pipeline) as work:
            async with aclosing(pipeline.stream(work.ctx, request.ask)) as pieces:
                async for piece in pieces:
                    if isinstance(piece, Answer):
                        stages_as_spans(work.ctx, piece)
                    yield piece
