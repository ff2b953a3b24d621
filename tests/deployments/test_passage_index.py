"""The passage index: hybrid retrieval of untrusted queries, and indexes that do not fit."""

import json
import shutil
import unicodedata
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from crag_core.errors import RetrievalFailed, SettingsError
from crag_core.types import Document, DocumentSource
from deployments.backends.dense_encoder import DenseEncoder
from deployments.backends.indexes.hybrid_search import reciprocal_rank_fusion
from deployments.backends.indexes.index_builder import build_index
from deployments.backends.indexes.lance_index import Encoder
from deployments.backends.indexes.passage_index import PassageIndex
from deployments.settings import EncoderSettings, Pooling
from tests.deployments.index_files import FakeEncoder, passages, write_lines

MINILM = Path(__file__).parents[2] / ".models" / "all-minilm-l6-v2"

ROWS = [
    {
        "id": "alps",
        "title": "Alps",
        "text": "The highest mountains of Europe.",
        "url": "https://a.example",
    },
    {"id": "quoted", "title": "Quotes", "text": 'She said "AND OR NOT" (title:x)^2 to him*.'},
    {"id": "tokyo", "title": "東京", "text": "東京は日本の首都です。"},
    {"id": "cairo", "title": "القاهرة", "text": "القاهرة هي عاصمة مصر."},
    {"id": "cafe", "title": unicodedata.normalize("NFD", "Café Ångström"), "text": "A coffee house."},
    {"id": "lines", "title": "Lines", "text": "one\u2028two"},
]


def build(folder: Path, rows: list[dict[str, Any]], encoder: Encoder) -> PassageIndex:
    out = folder / "my index é"
    build_index([write_lines(folder / "corpus.jsonl", rows)], out, encoder)
    return PassageIndex.open(str(out), encoder)


async def search(index: PassageIndex, query: str, limit: int = 3) -> list[Document]:
    return await index.search(query, limit=limit, candidates=50, rrf_k=60)


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory) -> PassageIndex:
    return build(tmp_path_factory.mktemp("passages"), ROWS, FakeEncoder())


@pytest.mark.parametrize(
    ("rankings", "fused"),
    [
        ([], []),
        ([[], []], []),
        ([["a", "b"], []], ["a", "b"]),
        ([["a"], ["b"]], ["a", "b"]),
        ([["a", "b", "c"], ["c", "b", "a"]], ["a", "c", "b"]),
        ([["a", "b"], ["b"]], ["b", "a"]),
    ],
)
def test_fusion_adds_reciprocal_ranks(rankings: list[list[str]], fused: list[str]) -> None:
    assert reciprocal_rank_fusion(rankings, k=1) == fused


async def test_document_comes_back_as_it_was_given(index: PassageIndex) -> None:
    (first, *_) = await search(index, "highest mountains of Europe")
    assert first == Document(
        id="alps",
        text="The highest mountains of Europe.",
        title="Alps",
        source=DocumentSource.CORPUS,
        url="https://a.example",
    )


@pytest.mark.parametrize(
    ("query", "best"),
    [
        ('"AND OR NOT" (title:x)^2', "quoted"),
        ("mountains AND", "alps"),
        ('alps" OR "', "alps"),
        ("-alps", "alps"),
        ("日本", "tokyo"),
        ("عاصمة", "cairo"),
        ("café ångström", "cafe"),
        (unicodedata.normalize("NFD", "café ångström"), "cafe"),
        ("cafe", "cafe"),
        ("two", "lines"),
    ],
)
async def test_words_are_found_in_every_script_and_operators_are_words(
    index: PassageIndex, query: str, best: str
) -> None:
    (first,) = await index.search(query, limit=1, candidates=1, rrf_k=60)
    assert first.id == best


@pytest.mark.parametrize("query", ["", " \n", "\u3000"])
async def test_blank_query_finds_nothing(index: PassageIndex, query: str) -> None:
    assert await search(index, query) == []


@pytest.mark.parametrize(
    "query", ["a", "?", '"', "\0", "\ud800", "😀", "🇫🇷", "x" * 100_000, "alps " * 20_000, "zzzz qqqq"]
)
async def test_odd_query_is_answered(index: PassageIndex, query: str) -> None:
    assert len(await search(index, query)) == 3


@settings(deadline=None, max_examples=50)
@given(st.text())
async def test_any_text_is_a_query(index: PassageIndex, query: str) -> None:
    assert len(await search(index, query, limit=2)) <= 2


async def test_limits_hold_and_no_document_comes_twice(index: PassageIndex) -> None:
    found = await search(index, "the mountains of Europe", limit=100)
    assert len({document.id for document in found}) == len(found) == len(ROWS)
    assert await search(index, "the mountains of Europe", limit=2) == found[:2]
    assert len(await index.search("Europe", limit=100, candidates=1, rrf_k=60)) <= 2


async def test_vector_side_is_exact_for_lengths_that_differ(tmp_path: Path) -> None:
    encoder = FakeEncoder()
    rows = passages(4_000)
    index = build(tmp_path, rows, encoder)
    vectors = encoder.encode([f"{row['title']}\n{row['text']}" for row in rows])
    for query in ("Which one?", "And then?", "Who?"):
        (vector,) = encoder.encode([query])
        hits = index._search._by_vector(vector, 50, ["title"])
        found = [row["title"] for row in hits]
        order = np.argsort(-(vectors @ encoder.encode([query])[0]))
        assert found == [rows[i]["title"] for i in order[:50]]


async def test_real_encoder_finds_by_meaning(tmp_path: Path) -> None:
    encoder = DenseEncoder(EncoderSettings(model=str(MINILM)))
    index = build(tmp_path, [*ROWS, *passages(20)], encoder)
    (first, *_) = await search(index, "tall peaks")
    assert first.id == "alps"


@pytest.mark.parametrize(
    ("encoder", "built_with", "given_now"),
    [
        (FakeEncoder(fingerprint="other"), "encoder_sha256 fake", "encoder_sha256 other"),
        (FakeEncoder(dimension=4), "dimension 8", "dimension 4"),
        (
            FakeEncoder(settings=EncoderSettings(model="m", normalise=True)),
            "normalise False",
            "normalise True",
        ),
        (
            FakeEncoder(settings=EncoderSettings(model="m", normalise=False, pooling=Pooling.CLS)),
            "pooling mean",
            "pooling cls",
        ),
    ],
)
def test_other_encoder_is_refused_and_both_are_named(
    tmp_path: Path, encoder: FakeEncoder, built_with: str, given_now: str
) -> None:
    build(tmp_path, ROWS, FakeEncoder())
    with pytest.raises(SettingsError, match=f"{built_with}.*{given_now}.*crag index build"):
        PassageIndex.open(str(tmp_path / "my index é"), encoder)


def test_other_folder_of_the_same_model_is_accepted(tmp_path: Path) -> None:
    build(tmp_path, ROWS, FakeEncoder())
    moved = FakeEncoder(settings=EncoderSettings(model="elsewhere", normalise=False, max_tokens=64))
    PassageIndex.open(str(tmp_path / "my index é"), moved)


def test_lexical_index_is_refused(tmp_path: Path) -> None:
    build_index([write_lines(tmp_path / "corpus.jsonl", ROWS)], tmp_path / "index", None)
    with pytest.raises(SettingsError, match="dimension None"):
        PassageIndex.open(str(tmp_path / "index"), FakeEncoder())


def rewritten(**changes: object) -> Callable[[Path], None]:
    def rewrite(out: Path) -> None:
        manifest = json.loads((out / "manifest.json").read_text("utf-8"))
        (out / "manifest.json").write_text(json.dumps(manifest | changes), "utf-8")

    return rewrite


def drop_table(out: Path) -> None:
    (table,) = out.glob("*.lance")
    shutil.rmtree(table)


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda out: (out / "manifest.json").write_bytes(b'{"format": 1'), "not a manifest of format 1"),
        (lambda out: (out / "manifest.json").write_bytes(b"\xff"), "not a manifest of format 1"),
        (rewritten(format=2), "not a manifest of format 1"),
        (rewritten(unknown=1), "not a manifest of format 1"),
        (rewritten(kind="snapshot"), "holds an index of kind snapshot, not passages"),
        (rewritten(rows=7), "holds 6 rows where its manifest says 7"),
        (rewritten(sources=[]), "the table passages-.* of the index .* cannot be read"),
        (drop_table, "the table passages-.* of the index .* cannot be read"),
        (lambda out: (out / "manifest.json").unlink(), "holds no finished index"),
        (shutil.rmtree, "holds no finished index"),
    ],
)
def test_damaged_index_is_refused_with_the_command_that_builds_one(
    tmp_path: Path, damage: Callable[[Path], None], message: str
) -> None:
    build(tmp_path, ROWS, FakeEncoder())
    out = tmp_path / "my index é"
    damage(out)
    with pytest.raises(SettingsError, match=f"{message}.*`crag index build`") as refused:
        PassageIndex.open(str(out), FakeEncoder())
    assert str(out) in str(refused.value)


def test_opening_a_missing_folder_does_not_make_it(tmp_path: Path) -> None:
    with pytest.raises(SettingsError):
        PassageIndex.open(str(tmp_path / "nowhere"), FakeEncoder())
    assert not (tmp_path / "nowhere").exists()


@pytest.mark.parametrize("uri", ["nonsense://bucket/index", "://", ""])
def test_uri_that_is_none_is_refused(uri: str) -> None:
    with pytest.raises(SettingsError):
        PassageIndex.open(uri, FakeEncoder())


def test_index_is_opened_by_uri(tmp_path: Path) -> None:
    out = tmp_path / "index"
    build_index([write_lines(tmp_path / "corpus.jsonl", ROWS)], out, FakeEncoder())
    PassageIndex.open(out.as_uri(), FakeEncoder())


async def test_index_that_vanishes_is_an_outage(tmp_path: Path) -> None:
    index = build(tmp_path, ROWS, FakeEncoder())
    drop_table(tmp_path / "my index é")
    with pytest.raises(RetrievalFailed):
        await search(index, "mountains")


async def test_encoder_that_fails_is_an_outage(tmp_path: Path) -> None:
    encoder = FakeEncoder()
    index = build(tmp_path, ROWS, encoder)
    encoder.error = RuntimeError("out of memory")
    with pytest.raises(RetrievalFailed):
        await search(index, "mountains")
