"""Readiness: each stage is asked one small thing, and is ready once it has answered."""

import asyncio
import logging
import uuid
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from typing import Protocol

from crag_core.compact.protocols import AnswerExtractor, QARetriever
from crag_core.compact.types import AtomicQA, Reading, ScoredPair
from crag_core.context import RequestContext
from crag_core.errors import CragError, SearchFailed
from crag_core.protocols import Ask, Evaluator, Pipeline, Retriever, Searcher
from crag_core.queries.plan import Sought
from crag_core.settings import AnswerOptions
from crag_core.types import Passage, PipelineName, Question, Stage
from deployments.api.health import StageState
from deployments.serve_state import DeploymentState

_logger = logging.getLogger(__name__)

_QUESTION = "What is the capital of France?"
_PROBE_TIMEOUT_S = 120.0
_RETRY_S = 1.0
_LOOK_EVERY_S = 5.0
_READY = StageState("ready", ready=True)
_AT_ZERO = StageState("at zero: its next request starts a replica", ready=True)

_DEPLOYMENTS: Mapping[Stage, Sequence[str]] = {
    Stage.RETRIEVE: ("Retriever",),
    Stage.EVALUATE: ("Evaluator",),
    Stage.SEARCH: ("Searcher",),
    Stage.GENERATE: ("Generator", "CragGraph"),
    Stage.RETRIEVE_PAIRS: ("AtomicQARetriever",),
    Stage.EXTRACT: ("HopReader",),
}
"""What answers when a stage is asked: its own deployment, and the graph that its probe goes through."""

Probe = Callable[[RequestContext], Awaitable[None]]


@dataclass(frozen=True)
class CompactStages:
    """The stages that pipeline `compact` has beside those of every pipeline."""

    pairs: QARetriever
    reader: AnswerExtractor


class Fleet(Protocol):
    """Knows the application's deployments."""

    async def deployments(self) -> Mapping[str, DeploymentState]: ...


class Canary:
    """Sends one small request through each stage until it answers, at the start and after a change.

    A stage whose replicas have changed keeps its state until the new ones have been asked. A stage that
    has none by design is ready, and is not asked: that would wake it.
    """

    def __init__(self, probes: Mapping[Stage, Probe], fleet: Fleet) -> None:
        """Every stage starts as `starting`."""
        self._probes = probes
        self._fleet = fleet
        self._states = {stage: StageState("starting", ready=False) for stage in probes}

    def stages(self) -> Mapping[str, StageState]:
        """The state of every stage."""
        return {str(stage): state for stage, state in self._states.items()}

    async def run(self) -> None:
        """Watch all stages side by side, for ever."""
        await asyncio.gather(*(self._watch(stage) for stage in self._probes))

    async def _watch(self, stage: Stage) -> None:
        answered_with: object = None
        while True:
            try:
                deployments = await self._deployments_of(stage)
                replicas = [deployment.running for deployment in deployments]
                if any(deployment.is_at_zero for deployment in deployments):
                    answered_with, self._states[stage] = None, _AT_ZERO
                elif replicas != answered_with:
                    await self._ask(stage)
                    answered_with, self._states[stage] = replicas, _READY
                await asyncio.sleep(_LOOK_EVERY_S)
            except CragError as error:
                answered_with = None
                self._states[stage] = StageState(f"{error.code}: {error.message}", ready=False)
                _logger.warning("stage %s is not ready: %s", stage, error.message)
                await asyncio.sleep(_RETRY_S)
            except Exception:  # whatever it is, a watch that ended would leave the stage as it is
                answered_with = None
                self._states[stage] = StageState("internal: see the log", ready=False)
                _logger.exception("the probe of stage %s failed", stage)
                await asyncio.sleep(_RETRY_S)

    async def _deployments_of(self, stage: Stage) -> Sequence[DeploymentState]:
        deployments = await self._fleet.deployments()
        return [deployments[name] for name in _DEPLOYMENTS.get(stage, ()) if name in deployments]

    async def _ask(self, stage: Stage) -> None:
        ctx = RequestContext.starting_now(f"canary-{uuid.uuid4().hex}", _PROBE_TIMEOUT_S)
        await self._probes[stage](ctx)


def probes(
    retriever: Retriever,
    evaluator: Evaluator,
    searchers: Sequence[Searcher],
    pipelines: Mapping[PipelineName, Pipeline],
    compact: CompactStages | None = None,
) -> dict[Stage, Probe]:
    """One probe per stage; the generator's goes through its graph, for one token."""

    async def retrieve(ctx: RequestContext) -> None:
        await retriever.retrieve(ctx, _QUESTION, limit=1)

    async def evaluate(ctx: RequestContext) -> None:
        await evaluator.evaluate(ctx, _QUESTION, [Passage("Paris is the capital of France.")])

    async def search(ctx: RequestContext) -> None:
        for searcher in searchers:
            try:
                await searcher.search(ctx, Sought(_QUESTION), limit=1)
            except SearchFailed as error:
                # the stage has answered: an outage of the web must not keep answers back
                _logger.warning("the search is up, but its source is not: %s", error.message)

    async def generate(ctx: RequestContext) -> None:
        ask = Ask(Question(_QUESTION), options=AnswerOptions(max_new_tokens=1))
        async with aclosing(pipelines[PipelineName.NO_RETRIEVAL].stream(ctx, ask)) as pieces:
            async for _ in pieces:
                pass

    return {
        Stage.RETRIEVE: retrieve,
        Stage.EVALUATE: evaluate,
        Stage.SEARCH: search,
        Stage.GENERATE: generate,
        **(_compact_probes(compact) if compact is not None else {}),
    }


def _compact_probes(compact: CompactStages) -> dict[Stage, Probe]:
    """The probes of what pipeline `compact` alone has; one replica extracts and rewrites."""
    known = ScoredPair(AtomicQA("canary", _QUESTION, "Paris", "canary"), 1.0)

    async def retrieve_pairs(ctx: RequestContext) -> None:
        await compact.pairs.retrieve_pairs(ctx, [_QUESTION], limit=1)

    async def extract(ctx: RequestContext) -> None:
        await compact.reader.extract(ctx, [Reading(_QUESTION, (known,))])

    return {Stage.RETRIEVE_PAIRS: retrieve_pairs, Stage.EXTRACT: extract}
