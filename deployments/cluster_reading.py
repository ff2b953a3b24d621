"""Reading passages on a Ray cluster: one engine per actor, fed by Ray Data."""

import asyncio
import json
from collections.abc import AsyncIterator, Sequence
from dataclasses import asdict
from typing import Any

import ray
from ray.data import ActorPoolStrategy

from deployments.backends.knowledge.base_builder import Reading, read_locally
from deployments.backends.knowledge.ledger import PassageRead
from deployments.backends.knowledge.pair_file import PublishedPassage
from deployments.settings import GeneratorSettings

_PASSAGES_PER_BATCH = 64


class EngineReader:
    """An actor of Ray Data: reads batches of passages with an engine of its own."""

    def __init__(self, settings: GeneratorSettings, entities: str) -> None:
        """Starts the engine, in an event loop that lives as long as the actor."""
        from deployments.backends.knowledge.passage_reader import PassageReader
        from deployments.backends.reading.entities import SpacyEntities
        from deployments.backends.vllm_engine import VllmEngine

        self._loop = asyncio.new_event_loop()

        async def start() -> PassageReader:
            return PassageReader(VllmEngine(settings), SpacyEntities(entities))

        self._reader = self._loop.run_until_complete(start())

    def __call__(self, batch: dict[str, Any]) -> dict[str, list[Any]]:
        """Passages as JSON in, what was read of them as JSON-like columns out."""
        passages = [PublishedPassage.model_validate_json(each) for each in batch["passage"]]

        async def read() -> list[PassageRead]:
            return [each async for each in read_locally(self._reader)(passages)]

        return {"read": [_packed(each) for each in self._loop.run_until_complete(read())]}


def read_on_cluster(
    settings: GeneratorSettings,
    entities: str,
    *,
    engines: int,
    gpus: float,
    reader: type = EngineReader,
) -> Reading:
    """Reading on the cluster that this process is in, or else on a new one of this machine."""

    async def reading(passages: Sequence[PublishedPassage], /) -> AsyncIterator[PassageRead]:
        if not passages:
            return
        rows = ray.data.from_items([{"passage": each.model_dump_json()} for each in passages])
        done = rows.map_batches(
            reader,
            fn_constructor_args=(settings, entities),
            batch_size=_PASSAGES_PER_BATCH,
            compute=ActorPoolStrategy(size=engines),
            num_gpus=gpus,
        )
        batches = iter(done.iter_rows())
        while (row := await asyncio.to_thread(next, batches, None)) is not None:
            yield _unpacked(row["read"])

    return reading


def _packed(read: PassageRead) -> str:
    return json.dumps(asdict(read))


def _unpacked(text: str) -> PassageRead:
    return PassageRead(**json.loads(text))
