"""Bases of atomic pairs: imported and built, resumed, indexed and searched."""

import asyncio
import gzip
import json
from collections.abc import AsyncGenerator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from crag_core.compact.knowledge_base import PairFlaw
from crag_core.context import RequestContext
from crag_core.errors import GenerationFailed, PromptTooLong, RetrievalFailed, SettingsError
from crag_core.types import Completion, Prompt, Sampling, TokenUsage
from deployments.backends.indexes.atomic_qa_index import AtomicQAIndex
from deployments.backends.indexes.index_builder import build_index
from deployments.backends.indexes.index_rows import ATOMIC_QA
from deployments.backends.knowledge.base_builder import BuildReport, build_pairs, read_locally
from deployments.backends.knowledge.ledger import LEDGER
from deployments.backends.knowledge.pair_file import PAIRS, import_pairs
from deployments.backends.knowledge.passage_reader import PassageReader
from tests.deployments.index_files import FakeEncoder, write_lines

JAWS = {
    "id": "jaws",
    "title": "Jaws",
    "text": "Jaws was directed by Steven Spielberg. It came out in 1975.",
}
ALIEN = {"id": "alien", "title": "Alien", "text": "Alien was directed by Ridley Scott."}


def qa(*pairs: tuple[Any, Any]) -> list[dict[str, Any]]:
    return [{"question": question, "answer": answer} for question, answer in pairs]


@dataclass
class NoEntities:
    """Finds nothing."""

    def entities(self, texts: Sequence[str]) -> Sequence[Sequence[tuple[str, str]]]:
        return [[] for _ in texts]


@dataclass
class FakeReaderModel:
    """Writes what it is told for a passage, attempt by attempt; an exception is raised."""

    scripts: dict[str, list[Any]]
    samplings: list[Sampling] = field(default_factory=list)
    asked: list[str] = field(default_factory=list)

    async def generate(
        self, ctx: RequestContext, prompt: Prompt, sampling: Sampling
    ) -> AsyncGenerator[Completion]:
        text = prompt.messages[-1].content
        (title,) = [title for title in self.scripts if f"Title: {title}\n" in text]
        self.samplings.append(sampling)
        self.asked.append(text)
        said = self.scripts[title].pop(0)
        if isinstance(said, Exception):
            raise said
        written = said if isinstance(said, str) else json.dumps({"qa": said})
        yield Completion(written, "stop", TokenUsage(100, 10))


GOOD = qa(("Who directed Jaws?", "Steven Spielberg"), ("Who directed Jaws?", "Nobody"))


def build(tmp_path: Path, model: FakeReaderModel, rows: Sequence[Any] = (JAWS, ALIEN)) -> BuildReport:
    corpus = write_lines(tmp_path / "corpus.jsonl", rows)
    reader = PassageReader(model, NoEntities())
    return asyncio.run(build_pairs([corpus], tmp_path / "base", read_locally(reader), "model 1"))


def pairs_of(tmp_path: Path) -> list[tuple[str, str]]:
    lines = (tmp_path / "base" / PAIRS).read_text("utf-8").splitlines()
    return [(row["question"], row["answer"]) for row in map(json.loads, lines)]


def test_a_corpus_is_read_judged_and_written_with_its_cost(tmp_path: Path) -> None:
    model = FakeReaderModel({"Jaws": [GOOD], "Alien": [qa(("Who directed it?", "ridley scott"))]})
    report = build(tmp_path, model)
    assert pairs_of(tmp_path) == [
        ("Who directed Jaws?", "Steven Spielberg"),
        ("Who directed Alien?", "Ridley Scott"),
    ]
    assert report.counts.rejected == {PairFlaw.NOT_VERBATIM: 1}
    assert (report.progress.prompt_tokens, report.progress.completion_tokens) == (200, 20)
    assert report.failures == ()
    assert all(sampling.json_schema for sampling in model.samplings)


def test_an_interrupted_build_goes_on_without_reading_anything_twice(tmp_path: Path) -> None:
    broken = FakeReaderModel({"Jaws": [GOOD], "Alien": [RuntimeError("the machine went away")]})
    with pytest.raises(RuntimeError):
        corpus = write_lines(tmp_path / "corpus.jsonl", [JAWS, ALIEN])
        one_by_one = read_locally(PassageReader(broken, NoEntities()), concurrency=1)
        asyncio.run(build_pairs([corpus], tmp_path / "base", one_by_one, "model 1"))
    model = FakeReaderModel({"Jaws": [], "Alien": [qa(("Who directed Alien?", "Ridley Scott"))]})
    report = build(tmp_path, model)
    assert (report.progress.resumed, len(model.asked)) == (1, 1)
    assert len(pairs_of(tmp_path)) == 2
    again = build(tmp_path, FakeReaderModel({"Jaws": [], "Alien": []}))
    assert again.progress.resumed == 2


def test_a_passage_that_stands_twice_is_read_once(tmp_path: Path) -> None:
    model = FakeReaderModel({"Jaws": [GOOD]})
    build(tmp_path, model, [JAWS, JAWS | {"id": "other"}])
    assert len(model.asked) == 1


def test_a_failure_is_tried_differently_and_then_in_halves(tmp_path: Path) -> None:
    released = qa(("When did Jaws come out?", "1975"))
    model = FakeReaderModel(
        {"Jaws": ["no JSON", GenerationFailed("engine"), released, "cut off"], "Alien": [GOOD[:0]] * 9}
    )
    report = build(tmp_path, model)
    first, second, *halves = [each for each in model.samplings[:4]]
    assert (first.temperature, second.temperature) == (0.0, 0.7)
    assert halves[0].temperature == 0.7
    assert pairs_of(tmp_path) == [("When did Jaws come out?", "1975")]
    assert [passage for passage, _ in report.failures] == ["alien"]
    assert "It came out" not in model.asked[model.asked.index(_half(model))]


def _half(model: FakeReaderModel) -> str:
    return next(text for text in model.asked if "Spielberg" in text and "1975" not in text)


def test_a_passage_too_long_for_the_model_fails_alone(tmp_path: Path) -> None:
    long = PromptTooLong("too long")
    report = build(tmp_path, FakeReaderModel({"Jaws": [GOOD], "Alien": [long] * 9}))
    assert report.failures == (("alien", "the passage is longer than the model reads"),)


def test_a_base_without_one_pair_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="not one pair of 2 passages was kept"):
        build(tmp_path, FakeReaderModel({"Jaws": [""] * 9, "Alien": [""] * 9}))


def test_a_ledger_of_another_reader_is_refused(tmp_path: Path) -> None:
    build(tmp_path, FakeReaderModel({"Jaws": [GOOD]}), [JAWS])
    corpus = write_lines(tmp_path / "corpus.jsonl", [JAWS])
    reading = read_locally(PassageReader(FakeReaderModel({}), NoEntities()))
    with pytest.raises(SettingsError, match="was begun with the reader model 1, not model 2"):
        asyncio.run(build_pairs([corpus], tmp_path / "base", reading, "model 2"))


def test_a_ledger_that_is_none_is_told(tmp_path: Path) -> None:
    (tmp_path / "base").mkdir()
    (tmp_path / "base" / LEDGER).write_text("not a database, but longer than a header of one" * 9)
    with pytest.raises(SettingsError, match="the ledger .* cannot be used"):
        build(tmp_path, FakeReaderModel({"Jaws": [GOOD]}), [JAWS])


@pytest.fixture
def published(tmp_path: Path) -> Path:
    rows: list[dict[str, Any]] = [
        {"corpus_id": "jaws", "dataset": "films", "reader": "a", **JAWS,
         "qa": qa(("Who directed it?", "It was directed by Steven Spielberg."), ("Who?", None))},
        {"title": "X", "text": "One letter.", "qa": qa(("What is X?", "a letter"))},
        {"title": "Null", "text": "Nothing.", "qa": None},
        {**JAWS, "qa": qa(("Who directed Jaws", "Jaws was directed by STEVEN Spielberg"))},
    ]  # fmt: skip
    file = tmp_path / "published.jsonl.gz"
    lines = [json.dumps(row) for row in rows]
    with gzip.open(file, "wt", encoding="utf-8") as sink:
        sink.write("\n".join([*lines, "not JSON", '{"qa": 3}', ""]))
    return file


def test_published_pairs_are_imported_judged_and_each_fact_once(tmp_path: Path, published: Path) -> None:
    counts = import_pairs([published], tmp_path / "base")
    assert pairs_of(tmp_path) == [
        ("Who directed Jaws?", "Jaws was directed by Steven Spielberg."),
        ("What is X?", "a letter"),
    ]
    assert (counts.kept, counts.without_pairs, counts.unreadable_lines) == (2, 2, 2)
    assert counts.rejected == {PairFlaw.BLANK: 1, PairFlaw.DUPLICATE: 1}


def test_an_import_takes_what_it_is_asked_for(tmp_path: Path, published: Path) -> None:
    assert import_pairs([published], tmp_path / "base", datasets=["films"], readers=["a"]).kept == 1
    with pytest.raises(SettingsError, match=r"no pair of published\.jsonl\.gz was kept"):
        import_pairs([published], tmp_path / "none", datasets=["songs"])
    assert not (tmp_path / "none" / PAIRS).exists()


async def test_a_base_is_searched_by_question_and_answer_with_provenance(
    tmp_path: Path, published: Path
) -> None:
    base, encoder = tmp_path / "base", FakeEncoder()
    import_pairs([published], base)
    build_index([base / PAIRS], base, encoder, schema=ATOMIC_QA)
    index = AtomicQAIndex.open(str(base), encoder)
    many, none = await index.search(["Who directed Jaws?", " "], limit=10, candidates=50, rrf_k=60)
    assert none == []
    assert len(many) == 2  # fewer pairs than asked for
    best = many[0].pair
    assert (best.question, best.passage_id, best.title) == ("Who directed Jaws?", "jaws", "Jaws")
    assert best.id.startswith("jaws#")
    assert many[0].score <= 1.001
    assert await index.search([], limit=1, candidates=5, rrf_k=60) == []


async def test_a_base_that_cannot_be_read_is_an_outage(tmp_path: Path, published: Path) -> None:
    base, encoder = tmp_path / "base", FakeEncoder()
    import_pairs([published], base)
    build_index([base / PAIRS], base, encoder, schema=ATOMIC_QA)
    index = AtomicQAIndex.open(str(base), encoder)

    def fail(texts: Sequence[str]) -> Any:
        raise RuntimeError("out of memory")

    index._search._encoder.encode = fail  # type: ignore[method-assign]
    with pytest.raises(RetrievalFailed):
        await index.search(["Who?"], limit=1, candidates=5, rrf_k=60)


def test_an_index_of_passages_is_no_base(tmp_path: Path) -> None:
    encoder = FakeEncoder()
    build_index([write_lines(tmp_path / "corpus.jsonl", [JAWS])], tmp_path / "index", encoder)
    with pytest.raises(SettingsError, match="of kind passages, not atomic_qa"):
        AtomicQAIndex.open(str(tmp_path / "index"), encoder)
