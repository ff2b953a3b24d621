"""Fakes of CompactRAG's stages: dataclasses that keep its Protocols, with behaviour you can read."""

from collections.abc import AsyncGenerator, Mapping, Sequence
from dataclasses import dataclass, field

from crag_core.compact.compact import Compact
from crag_core.compact.resolution import Resolver
from crag_core.compact.settings import CompactSettings
from crag_core.compact.types import AtomicQA, ExtractedAnswer, Reading, Rewriting, ScoredPair
from crag_core.context import RequestContext
from crag_core.generation import AnswerWriter
from crag_core.protocols import Retriever
from crag_core.settings import CragSettings
from crag_core.types import Completion, Prompt, Sampling, TokenUsage
from tests.fakes import FakeTokenCounter


def pair(question: str, answer: str, passage_id: str = "p0", title: str = "Title") -> AtomicQA:
    """A pair with an id of its own."""
    return AtomicQA(f"{passage_id}#{question}", question, answer, passage_id, title)


@dataclass
class FakeQARetriever:
    """Finds pairs by the very query; any other query finds `otherwise`."""

    found: Mapping[str, Sequence[AtomicQA]] = field(default_factory=dict)
    otherwise: Sequence[AtomicQA] = ()
    score: float = 0.8
    error: Exception | None = None
    calls: list[tuple[str, ...]] = field(default_factory=list)

    async def retrieve_pairs(
        self, ctx: RequestContext, queries: Sequence[str], *, limit: int
    ) -> Sequence[Sequence[ScoredPair]]:
        self.calls.append(tuple(queries))
        if self.error:
            raise self.error
        return [
            [ScoredPair(each, self.score) for each in self.found.get(query, self.otherwise)[:limit]]
            for query in queries
        ]


@dataclass
class FakeRewriter:
    """Writes what it is told for a question, and nothing for any other."""

    texts: Mapping[str, str] = field(default_factory=dict)
    asked: list[Rewriting] = field(default_factory=list)

    async def rewrite(
        self, ctx: RequestContext, rewritings: Sequence[Rewriting]
    ) -> Sequence[str | None]:
        self.asked += rewritings
        return [self.texts.get(rewriting.question) for rewriting in rewritings]


@dataclass
class FakeExtractor:
    """Reads the whole answer of the best pair, or what it is told to read for a question."""

    answers: Mapping[str, str | None] = field(default_factory=dict)
    calls: list[tuple[Reading, ...]] = field(default_factory=list)

    async def extract(
        self, ctx: RequestContext, readings: Sequence[Reading]
    ) -> Sequence[ExtractedAnswer | None]:
        self.calls.append(tuple(readings))
        return [self._answer(reading) for reading in readings]

    def _answer(self, reading: Reading) -> ExtractedAnswer | None:
        text = self.answers.get(reading.question, reading.pairs[0].pair.answer)
        return None if text is None else ExtractedAnswer(text, 0, 1.0)


@dataclass
class ScriptedGenerator:
    """Says one text after the other, a completion each; an exception among them is raised."""

    script: Sequence[str | Exception]
    prompts: list[Prompt] = field(default_factory=list)
    samplings: list[Sampling] = field(default_factory=list)

    async def generate(
        self, ctx: RequestContext, prompt: Prompt, sampling: Sampling
    ) -> AsyncGenerator[Completion]:
        said = self.script[len(self.prompts)]
        self.prompts.append(prompt)
        self.samplings.append(sampling)
        if isinstance(said, Exception):
            raise said
        yield Completion(said[:3])
        yield Completion(said[3:], "stop", TokenUsage(10, 5))


def compact(
    generator: ScriptedGenerator,
    retriever: FakeQARetriever,
    *,
    rewriter: FakeRewriter | None = None,
    extractor: FakeExtractor | None = None,
    passages: Retriever | None = None,
    settings: CompactSettings | None = None,
) -> Compact:
    """The pipeline over fakes."""
    chosen = settings or CompactSettings()
    resolver = Resolver(
        retriever, rewriter or FakeRewriter(), extractor or FakeExtractor(), chosen, passages
    )
    return Compact(resolver, AnswerWriter(generator, FakeTokenCounter()), chosen, CragSettings())
