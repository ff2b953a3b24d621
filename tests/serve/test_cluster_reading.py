"""Reading passages by Ray Data, on a real cluster of this machine, with a reader that needs no model."""

import asyncio
import json
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest
import ray

from deployments.backends.knowledge.base_builder import build_pairs
from deployments.backends.knowledge.ledger import PassageRead
from deployments.backends.knowledge.pair_file import PAIRS, PublishedPassage, passage_hash
from deployments.cluster_reading import read_on_cluster
from deployments.settings import GeneratorSettings

pytestmark = pytest.mark.serve
PASSAGES = 150


class InstantReader:
    """An actor that makes one pair of each passage."""

    def __init__(self, settings: object, entities: object) -> None:
        pass

    def __call__(self, batch: dict[str, Any]) -> dict[str, list[str]]:
        passages = [PublishedPassage.model_validate_json(each) for each in batch["passage"]]
        return {"read": [json.dumps(asdict(self._read(passage))) for passage in passages]}

    def _read(self, passage: PublishedPassage) -> PassageRead:
        key = passage_hash(passage.title, passage.text)
        pairs = [{"question": f"What is {passage.title}?", "answer": "a number"}]
        return PassageRead(key, pairs, None, 1, 10, 2)


@pytest.fixture
def cluster() -> Iterator[None]:
    ray.init(address="local", num_cpus=2, include_dashboard=False, log_to_driver=False)
    yield
    ray.shutdown()


def test_a_base_is_built_on_a_cluster_and_goes_on_where_it_stopped(
    tmp_path: Path, cluster: None
) -> None:
    corpus = tmp_path / "corpus.jsonl"
    rows = [{"title": f"Number {n}", "text": f"{n} is a number."} for n in range(PASSAGES)]
    corpus.write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")
    settings = GeneratorSettings(model="unused")  # type: ignore[call-arg]
    reading = read_on_cluster(settings, "unused", engines=1, gpus=0, reader=InstantReader)
    report = asyncio.run(build_pairs([corpus], tmp_path / "base", reading, "instant"))
    assert (report.counts.kept, report.progress.prompt_tokens) == (PASSAGES, 10 * PASSAGES)
    assert len((tmp_path / "base" / PAIRS).read_text("utf-8").splitlines()) == PASSAGES
    again = asyncio.run(build_pairs([corpus], tmp_path / "base", reading, "instant"))
    assert again.progress.resumed == PASSAGES
