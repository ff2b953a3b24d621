"""Knowledge searching against a wiki: pages found, answers in their text, and what it costs.

Our strategies and the open reproduction's walk through the same questions, on the same wiki.
"""

import asyncio
import random
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Annotated

import typer

from benchmarks.datasets import Item, read_items
from benchmarks.report import table
from crag_core.context import RequestContext
from crag_core.errors import SearchFailed
from crag_core.metrics import contains_answer
from crag_core.protocols import Evaluation, SearchResult
from crag_core.queries.plan import SearchPlan, Sought
from crag_core.queries.planning import plan_search
from crag_core.queries.reproduction import reproduction_plan
from crag_core.queries.validation import has_title_of
from crag_core.queries.wording import folded
from crag_core.searching import KnowledgeSearch
from crag_core.settings import SearchingSettings
from crag_core.trace import Recorder
from crag_core.types import Document, Knowledge, Passage
from deployments.backends.batching.token_batcher import TokenBatcher
from deployments.backends.evaluators.scorer import load_scorer
from deployments.backends.wikipedia.mediawiki import MediaWiki
from deployments.backends.wikipedia.parameters import MAX_PAGES, sendable_titles, title_parameters
from deployments.backends.wikipedia.search import WikiSearch
from deployments.backends.wikipedia.sequential import SequentialStrategies
from deployments.backends.wikipedia.strategies import WikiStrategies
from deployments.settings import EvaluatorSettings, MediaWikiSettings, SearchBudgetSettings

_RESAMPLES = 2_000
_UNLIMITED = 1_000_000
_TIMEOUT_S = 120.0


@dataclass(frozen=True, slots=True)
class Found:
    """What came of one question."""

    titles: tuple[str, ...]
    text: str
    requests: int
    failed: bool = False


@dataclass(frozen=True, slots=True)
class PlannedSearcher:
    """A Searcher in this process: one way to plan, one way to ask."""

    plan: Callable[[Sought], SearchPlan]
    wiki: WikiSearch

    async def search(self, ctx: RequestContext, sought: Sought, *, limit: int) -> SearchResult:
        """Leads of the pages found."""
        return await self.wiki.search(self.plan(sought), limit=limit, timeout_s=_TIMEOUT_S)

    async def read(self, ctx: RequestContext, page: Document) -> Sequence[Document]:
        """The paragraphs of a page."""
        return await self.wiki.read(page, timeout_s=_TIMEOUT_S)


class LocalEvaluator:
    """An Evaluator in this process, to choose among pages of one name."""

    def __init__(self, settings: EvaluatorSettings) -> None:
        scorer = load_scorer(settings)
        self._manifest, self._batcher = scorer.manifest, TokenBatcher(scorer, settings.batching)

    async def evaluate(
        self, ctx: RequestContext, question: str, passages: Sequence[Passage]
    ) -> Evaluation:
        """One entry per passage."""
        scored = await self._batcher.evaluate(ctx, question, tuple(passages))
        return Evaluation(
            tuple(passage.score for passage in scored),
            tuple(passage.truncated for passage in scored),
            self._manifest.thresholds.action(),
            self._manifest.thresholds.strip,
            self._manifest.evaluator_id,
        )


def search(
    data: Annotated[Path, typer.Option(help="Folder with the question set.", exists=True)],
    name: Annotated[str, typer.Option(help="Question set: file name without .jsonl.")] = "popqa",
    wiki: Annotated[
        str | None, typer.Option(help="Address of a MediaWiki's api.php; without one, titles only.")
    ] = None,
    limit: Annotated[int | None, typer.Option(help="Only the first so many.", min=1)] = None,
    pages: Annotated[int, typer.Option(help="Pages given as evidence, at most.", min=1, max=20)] = 5,
    in_flight: Annotated[int, typer.Option(help="Questions at once.", min=1, max=16)] = 2,
    evaluator: Annotated[
        str, typer.Option(help="Evaluator that chooses among pages of one name.")
    ] = "deployments/evaluators/minilm-head",
    encoder: Annotated[str, typer.Option(help="Its encoder.")] = ".models/all-minilm-l6-v2",
) -> None:
    """Search a wiki for every question, in our way and in the reproduction's, and compare.

    Questions must name their pages (`s_wiki_title`, `supporting_titles`). A local wiki with such pages:
    python -m tests.mediawiki.corpus_wiki --data DIR
    """
    try:
        items = [item for item in read_items(data, name, limit) if item.pages]
    except (OSError, ValueError) as error:
        print(f"error: {error}", file=sys.stderr)
        raise typer.Exit(2) from error
    print(agreement(name, items))
    if wiki is not None:
        scorer = LocalEvaluator(EvaluatorSettings(model=evaluator, encoder=encoder))
        try:
            print(asyncio.run(_measure(items, wiki, scorer, pages, in_flight)))
        except SearchFailed as error:
            print(f"error: {error}", file=sys.stderr)
            raise typer.Exit(1) from error


def agreement(name: str, items: Sequence[Item]) -> str:
    """How often the entity is the gold page's title, by our rules and by the reproduction's."""
    rows = []
    for label, plan in (("ours", plan_search), ("reproduction", reproduction_plan)):
        plans = [plan(Sought(item.question)) for item in items]
        entity = sum(
            any(has_title_of(entity, page) for entity in planned.entities for page in item.pages)
            for item, planned in zip(items, plans, strict=True)
        )
        titles = sum(
            not {folded(page) for page in item.pages}.isdisjoint(
                folded(query.text) for query in planned.titles
            )
            for item, planned in zip(items, plans, strict=True)
        )
        rows.append([label, *(f"{100 * count / len(items):.1f} %" for count in (entity, titles))])
    header = ["rules", "a name is a gold title, qualifier aside", "a gold title is asked for"]
    return f"## {name}: {len(items)} questions with a gold page\n\n{table(header, rows)}\n"


async def _measure(
    items: Sequence[Item],
    url: str,
    evaluator: LocalEvaluator,
    pages: int,
    in_flight: int,
) -> str:
    budget = SearchBudgetSettings(
        requests_per_minute=_UNLIMITED,
        burst=_UNLIMITED // 2,
        max_in_flight=in_flight,
        lease_s=2 * _TIMEOUT_S,
    )
    settings = MediaWikiSettings(
        api_url=url,
        contact="https://crag-serve.example/benchmark",
        timeout_s=_TIMEOUT_S,
        budget=budget,
    )
    # one client each, since a client remembers answers
    ours, theirs = clients = MediaWiki(settings), MediaWiki(settings)
    try:
        there = await _pages_there(theirs, items)
        if not any(there.intersection(item.pages) for item in items):
            raise SearchFailed(f"{settings.host} has none of the pages of these questions")
        found, cpu_ms = {}, {}
        for label, plan, strategies in (
            ("ours", plan_search, WikiStrategies(ours)),
            ("reproduction", reproduction_plan, SequentialStrategies(theirs)),
        ):
            knowledge = KnowledgeSearch(
                (PlannedSearcher(plan, strategies),), evaluator, SearchingSettings()
            )
            started_s = time.thread_time()
            found[label] = await _search_all(knowledge, items, pages, in_flight)
            cpu_ms[label] = 1000 * (time.thread_time() - started_s) / len(items)
    finally:
        for client in clients:
            await client.close()
    return _report(items, there, found, cpu_ms)


async def _pages_there(transport: MediaWiki, items: Sequence[Item]) -> set[str]:
    """The gold titles that the wiki has."""
    titles = sendable_titles(page for item in items for page in item.pages)
    there: set[str] = set()
    for first in range(0, len(titles), MAX_PAGES):
        batch = titles[first : first + MAX_PAGES]
        answer = await transport.query(title_parameters(batch), timeout_s=_TIMEOUT_S)
        led_to = zip(batch, answer.pages_of(batch), strict=True)
        there |= {title for title, page in led_to if page is not None}
    return there


async def _search_all(
    knowledge: KnowledgeSearch, items: Sequence[Item], pages: int, in_flight: int
) -> list[Found]:
    slots = asyncio.Semaphore(in_flight)

    async def one(item: Item) -> Found:
        async with slots:
            recorder = Recorder()
            ctx = RequestContext.starting_now(item.id, _TIMEOUT_S)
            searched = await knowledge.search(ctx, Sought(item.question), recorder, limit=pages)
        if any(isinstance(outage, SearchFailed) for outage in searched.outages):
            return Found((), "", 0, failed=True)
        documents = searched.documents
        return Found(
            tuple(document.title for document in documents),
            "\n".join(document.text for document in documents),
            recorder.trace(Knowledge()).search_requests,
        )

    return list(await asyncio.gather(*map(one, items)))


def _report(
    items: Sequence[Item],
    there: set[str],
    found: dict[str, list[Found]],
    cpu_ms: dict[str, float],
) -> str:
    known = [at for at, item in enumerate(items) if there.intersection(item.pages)]
    rows, measures = [], {}
    for label, results in found.items():
        scored = list(zip(items, results, strict=True))
        hit = [float(bool({*items[at].pages}.intersection(results[at].titles))) for at in known]
        first = [float(bool({*items[at].pages}.intersection(results[at].titles[:1]))) for at in known]
        bearing = [
            float(contains_answer(result.text, item.answers, case_sensitive=False))
            for item, result in scored
        ]
        bearing_known = [bearing[at] for at in known]
        requests = [float(result.requests) for result in results]
        measures[label] = (hit, first, bearing_known, bearing, requests)
        rows.append(
            [
                label, _share(hit), _share(first), _share(bearing_known), _share(bearing),
                f"{fmean(requests[at] for at in known):.2f}", f"{fmean(requests):.2f}",
                f"{max(requests):.0f}", f"{cpu_ms[label]:.1f}",
                f"{fmean(len(result.text.split()) for result in results):.0f}",
                str(sum(result.failed for result in results)),
            ]
        )  # fmt: skip
    ours, theirs = measures["ours"], measures["reproduction"]
    differences = [
        _interval([a - b for a, b in zip(mine, other, strict=True)])
        for mine, other in zip(ours, theirs, strict=True)
    ]
    rows.append(
        ["difference", *(f"{100 * low:+.1f} to {100 * high:+.1f}" for low, high in differences[:4]),
         "", f"{differences[4][0]:+.2f} to {differences[4][1]:+.2f}", "", "", "", ""]
    )  # fmt: skip
    header = [
        "way", "page hit", "gold page first", "answer in text", "answer in text, all questions",
        "requests", "requests, all", "most", "CPU ms", "words", "failed",
    ]  # fmt: skip
    return (
        f"{len(known)} of the gold pages are in the wiki; page hit, first and answer are of those "
        f"questions, with 95 % bootstrap intervals\n\n{table(header, rows)}\n"
    )


def _share(values: Sequence[float]) -> str:
    low, high = _interval(values)
    return f"{100 * fmean(values):.1f} % ({100 * low:.1f} to {100 * high:.1f})"


def _interval(values: Sequence[float]) -> tuple[float, float]:
    """The 95 % interval of a mean, by resampling."""
    chosen = random.Random(0)
    means = sorted(fmean(chosen.choices(values, k=len(values))) for _ in range(_RESAMPLES))
    return means[int(0.025 * _RESAMPLES)], means[int(0.975 * _RESAMPLES) - 1]
