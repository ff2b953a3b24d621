"""A pipeline whose answers carry their decision records."""

from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import dataclass, replace

from crag_core.compact.settings import CompactSettings
from crag_core.context import RequestContext
from crag_core.protocols import Ask, Pipeline
from crag_core.settings import CragSettings
from crag_core.types import Answer
from deployments.records.record import Models
from deployments.records.tape import Tape


@dataclass(frozen=True, slots=True)
class Recorded:
    """Runs a pipeline over stages that are recorded; keeps the core's Protocol `Pipeline`.

    `settings` and `models` are what the record names as in force; `compact` where it is that pipeline.
    """

    pipeline: Pipeline
    settings: CragSettings
    models: Models
    compact: CompactSettings | None = None

    async def stream(self, ctx: RequestContext, ask: Ask) -> AsyncGenerator[str | Answer]:
        """The pipeline's pieces, then its Answer with the record."""
        tape = Tape()
        async with aclosing(tape.around(self.pipeline).stream(ctx, ask)) as pieces:
            async for piece in pieces:
                if isinstance(piece, Answer):
                    record = tape.record(ask, self.settings, self.models, piece, self.compact)
                    piece = replace(piece, record=record.to_json())
                yield piece
