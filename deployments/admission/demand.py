"""What a request asks of each stage: its cost, estimated before anything is started."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from crag_core.protocols import Ask
from crag_core.settings import CragSettings
from crag_core.types import PipelineName, Stage, StageRecord

Demand = Mapping[str, float]
"""Cost by stage: thousands of tokens for the evaluator (documents times tokens), elsewhere calls."""

SERVING = "serving"
"""Whatever no stage accounts for: HTTP, the graphs, the way between processes."""

BESIDE: Demand = {SERVING: 1.0}
"""Of a request whose work makes no answer wait: a search, bounded by its budget, or an explanation.

Nor does the gate learn from it what an answer takes, however it ends.
"""

_CHARACTERS_PER_UNIT = 4_000.0
_RETRIEVED_CHARACTERS = 620
"""Of a passage of the corpus, as long as those of Wikipedia that the papers use."""
_TIMES_SCORED = 2.0
"""A document is scored whole, and again in strips."""

_DEVICE_OF: Mapping[Stage, Stage] = {
    Stage.REFINE_INTERNAL: Stage.EVALUATE,
    Stage.REFINE_EXTERNAL: Stage.EVALUATE,
    Stage.DECOMPOSE: Stage.GENERATE,
    Stage.REWRITE: Stage.EXTRACT,
}
"""Stages of an answer that wait for another stage's device."""


@dataclass(frozen=True, slots=True)
class Costs:
    """Estimates demands; a wrong scale does no harm, since speeds are learned in the same units."""

    crag: CragSettings

    def of_answer(self, ask: Ask, pipeline: PipelineName) -> Demand:
        """An answer of a pipeline."""
        demand = {SERVING: 1.0, Stage.GENERATE: 1.0}
        if ask.documents is None and pipeline in (PipelineName.CRAG, PipelineName.RAG):
            demand[Stage.RETRIEVE] = 1.0
        match pipeline:
            case PipelineName.CRAG:
                demand[Stage.EVALUATE] = self._evaluation(ask)
            case PipelineName.COMPACT:
                demand |= {Stage.GENERATE: 2.0, Stage.RETRIEVE_PAIRS: 1.0, Stage.EXTRACT: 1.0}
            case PipelineName.RAG | PipelineName.NO_RETRIEVAL:
                pass
        return demand

    def of_rerank(self, texts: Iterable[str]) -> Demand:
        """Passages to score, and nothing else."""
        return {SERVING: 1.0, Stage.EVALUATE: sum(map(len, texts)) / _CHARACTERS_PER_UNIT}

    def _evaluation(self, ask: Ask) -> float:
        if ask.documents is None:
            limit = ask.options.retrieve_limit or self.crag.retrieve_limit
            characters = limit * _RETRIEVED_CHARACTERS
        else:
            characters = sum(len(document.text) for document in ask.documents)
        return _TIMES_SCORED * characters / _CHARACTERS_PER_UNIT


def seconds_by_stage(records: Iterable[StageRecord], total_s: float) -> dict[str, float]:
    """What each device took of an answer, its queue included, and what is left for serving.

    The search is left out: an answer can do without it, so its queue turns nobody away.
    """
    seconds: dict[str, float] = {}
    covered_s, covered_until_s = 0.0, 0.0
    for record in records:  # in the order in which they started
        if record.stage is not Stage.SEARCH:
            device = _DEVICE_OF.get(record.stage, record.stage)
            seconds[device] = seconds.get(device, 0.0) + record.seconds
        end_s = record.started_s + record.seconds
        covered_s += max(0.0, end_s - max(record.started_s, covered_until_s))
        covered_until_s = max(covered_until_s, end_s)
    seconds[SERVING] = max(0.0, total_s - covered_s)
    return seconds
