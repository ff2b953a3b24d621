"""`python -m benchmarks compact-cost`: tokens, calls and seconds a question, CompactRAG and baselines.

One run, one generator, one machine; every completion's tokens are those that the generator reports.
"""

import asyncio
import json
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import mean
from typing import Annotated, Any

import typer

from benchmarks.compact.retrievers import IndexedPairs, RuleReader
from benchmarks.datasets import Item, read_items
from crag_core.baselines import NoRetrieval, Rag
from crag_core.compact.baselines import Baseline, IrCot, IterRetGen, SelfAsk, Stages
from crag_core.compact.compact import Compact
from crag_core.compact.resolution import Resolver
from crag_core.compact.settings import CompactSettings, PlanLimits
from crag_core.context import RequestContext
from crag_core.errors import SettingsError
from crag_core.generation import AnswerWriter
from crag_core.metrics import exact_match, f1_score, percentile
from crag_core.protocols import Ask, Pipeline
from crag_core.settings import CragSettings
from crag_core.types import Answer, Document, Question, Usage
from deployments.backends.chat_template import ChatTemplate
from deployments.backends.dense_encoder import DenseEncoder
from deployments.backends.indexes.atomic_qa_index import AtomicQAIndex
from deployments.backends.indexes.passage_index import PassageIndex
from deployments.backends.reading.entities import SpacyEntities
from deployments.settings import EncoderSettings, GeneratorSettings

_DEADLINE_S = 3_600.0
_CANDIDATES, _RRF_K = 50, 60

Answering = Callable[[RequestContext, str], Awaitable[tuple[str, Usage]]]


@dataclass(frozen=True, slots=True)
class IndexedPassages:
    """A `Retriever` over a passage index on disk."""

    index: PassageIndex

    async def retrieve(self, ctx: RequestContext, query: str, *, limit: int) -> Sequence[Document]:
        """As the deployment retrieves them."""
        return await self.index.search(query, limit=limit, candidates=_CANDIDATES, rrf_k=_RRF_K)


@dataclass(slots=True)
class _Ledger:
    """What the questions of one method cost, and how right its answers were."""

    usages: list[Usage] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)
    matches: list[float] = field(default_factory=list)
    f1: list[float] = field(default_factory=list)

    @property
    def tokens(self) -> float:
        return mean(usage.prompt_tokens + usage.completion_tokens for usage in self.usages)

    def row(self, method: str) -> dict[str, Any]:
        calls = [usage.llm_calls for usage in self.usages]
        return {
            "method": method,
            "n": len(self.usages),
            "tokens": round(self.tokens, 1),
            "prompt_tokens": round(mean(usage.prompt_tokens for usage in self.usages), 1),
            "completion_tokens": round(mean(usage.completion_tokens for usage in self.usages), 1),
            "calls": round(mean(calls), 2),
            "calls_min_max": [min(calls), max(calls)],
            "seconds": round(mean(self.seconds), 2),
            "seconds_p95": round(percentile(self.seconds, 0.95), 2),
            "exact_match": round(mean(self.matches), 4),
            "f1": round(mean(self.f1), 4),
        }


def compact_cost(
    data: Annotated[Path, typer.Option(help="Folder with the question set.")],
    base: Annotated[Path, typer.Option(help="A base of atomic pairs.")],
    index: Annotated[Path, typer.Option(help="A passage index of the same corpus.")],
    encoder: Annotated[str, typer.Option(help="Folder or hub name of their encoder.")],
    generator: Annotated[str, typer.Option(help="Folder or hub name of the chat model.")],
    name: Annotated[str, typer.Option(help="Question set.")] = "questions",
    entities: Annotated[str, typer.Option(help="spaCy pipeline.")] = "en_core_web_sm",
    dtype: Annotated[str, typer.Option(help="As in the settings.")] = "float32",
    max_sub_questions: Annotated[int, typer.Option(help="Sub-questions of a plan.", min=1)] = 4,
    offline_tokens: Annotated[
        int | None, typer.Option(help="What the base cost to build: gives the break-even.", min=0)
    ] = None,
    limit: Annotated[int | None, typer.Option(help="Questions.", min=1)] = None,
) -> None:
    """Tokens, calls, seconds, EM and F1 a question: CompactRAG and its baselines."""
    from deployments.backends.vllm_engine import VllmEngine

    model = GeneratorSettings.model_validate(
        {"model": generator, "dtype": dtype, "max_model_len": 2048, "enforce_eager": True}
    )

    async def run() -> dict[str, _Ledger]:
        engine = VllmEngine(model)
        try:
            dense = DenseEncoder(EncoderSettings(model=encoder))
            passages = IndexedPassages(PassageIndex.open(str(index), dense))
            pairs = IndexedPairs(AtomicQAIndex.open(str(base), dense))
            reader = RuleReader(SpacyEntities(entities))
            writer = AnswerWriter(engine, ChatTemplate(generator))
            settings = CompactSettings(limits=PlanLimits(max_sub_questions=max_sub_questions))
            crag = CragSettings(rag_documents=5)
            stages = Stages(passages, engine)
            resolver = Resolver(pairs, reader, reader, settings, passages)
            methods = {
                "compact": _pipeline(Compact(resolver, writer, settings, crag)),
                "no_retrieval": _pipeline(NoRetrieval(writer, crag)),
                "rag": _pipeline(Rag(passages, writer, crag)),
                "self_ask": _baseline(SelfAsk(stages)),
                "ircot": _baseline(IrCot(stages)),
                "iter_retgen": _baseline(IterRetGen(stages)),
            }
            return await _measured(methods, items)
        finally:
            engine.shutdown()

    try:
        items = [item for item in read_items(data, name) if item.answers][:limit]
        ledgers = asyncio.run(run())
    except (SettingsError, FileNotFoundError, ValueError) as error:
        typer.echo(f"error: {error}", err=True)
        raise typer.Exit(2) from None
    for method, ledger in ledgers.items():
        row = ledger.row(method)
        if offline_tokens is not None and method != "compact":
            saved = ledger.tokens - ledgers["compact"].tokens
            row["break_even_questions"] = round(offline_tokens / saved) if saved > 0 else None
        typer.echo(json.dumps(row))


async def _measured(methods: dict[str, Answering], items: Sequence[Item]) -> dict[str, _Ledger]:
    """Every question by every method, one after the other, in turns."""
    ledgers = {method: _Ledger() for method in methods}
    for item in items:
        for method, answer in methods.items():
            ctx = RequestContext.starting_now(f"{method}-{item.id}", _DEADLINE_S)
            started = time.perf_counter()
            text, usage = await answer(ctx, item.question)
            ledger = ledgers[method]
            ledger.seconds.append(time.perf_counter() - started)
            ledger.usages.append(usage)
            ledger.matches.append(max(exact_match(text, gold) for gold in item.answers))
            ledger.f1.append(max(f1_score(text, gold) for gold in item.answers))
        typer.echo(f"{len(ledgers['compact'].usages)} of {len(items)} questions", err=True)
    return ledgers


def _pipeline(pipeline: Pipeline) -> Answering:
    async def answer(ctx: RequestContext, question: str) -> tuple[str, Usage]:
        pieces = [piece async for piece in pipeline.stream(ctx, Ask(Question(question)))]
        finished = pieces[-1]
        assert isinstance(finished, Answer), "a pipeline ends with its answer"
        return finished.text, finished.usage

    return answer


def _baseline(baseline: Baseline) -> Answering:
    async def answer(ctx: RequestContext, question: str) -> tuple[str, Usage]:
        finished = await baseline.answer(ctx, question)
        return finished.text, finished.usage

    return answer
