"""Answers the lines of a block through a running server, and writes its part whole or not at all."""

import asyncio
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx

from benchmarks.patient_client import PatientClient
from deployments.batch.blocks import Block

_MARGIN_S = 10.0


@dataclass(frozen=True, slots=True)
class BatchSettings:
    """Who is asked, and how; `fields` stand in every request where a line has no other."""

    url: str
    headers: tuple[tuple[str, str], ...]
    out: str
    fields: dict[str, Any]
    concurrency: int
    timeout_s: float
    patience_s: float


@dataclass(frozen=True, slots=True)
class BlockDone:
    """What became of a block: its records and errors, or why it has to be done again."""

    part: str
    records: int
    errors: int
    unfinished: str | None = None


class BlockAnswerer:
    """An actor of Ray Data: blocks in, parts on shared storage out; nothing is kept in between."""

    def __init__(self, settings: BatchSettings) -> None:
        """Asks nothing yet."""
        self._settings = settings

    def __call__(self, batch: dict[str, Any]) -> dict[str, list[Any]]:
        """One row per block."""
        done = asyncio.run(self._answer([Block(**block) for block in batch["block"]]))
        return {
            "part": [each.part for each in done],
            "records": [each.records for each in done],
            "errors": [each.errors for each in done],
            "unfinished": [each.unfinished or "" for each in done],
        }

    async def _answer(self, blocks: Sequence[Block]) -> list[BlockDone]:
        settings = self._settings
        async with httpx.AsyncClient(
            base_url=settings.url, headers=settings.headers, timeout=settings.timeout_s + _MARGIN_S
        ) as client:
            patient = PatientClient(client, settings.patience_s)
            return [await answer_block(block, patient, settings) for block in blocks]


async def answer_block(block: Block, patient: PatientClient, settings: BatchSettings) -> BlockDone:
    """One record per line, in order, and then the part; a server that stays away leaves no part.

    A record has `line`, `id` where the line has one, and the answer's fields or an `error`.
    """
    slots = asyncio.Semaphore(settings.concurrency)

    async def one(number: int, line: bytes) -> dict[str, Any] | None:
        async with slots:
            return await _record(block, number, line, patient, settings)

    records = await asyncio.gather(*(one(number, line) for number, line in block.read()))
    whole = [record for record in records if record is not None]
    if len(whole) < len(records):
        away = len(records) - len(whole)
        return BlockDone(block.part, 0, 0, f"{away} of its {len(records)} lines met no server")
    path = Path(settings.out) / block.part
    aside = path.with_name(f"{path.name}.partial")
    lines = (json.dumps(record, ensure_ascii=False) + "\n" for record in whole)
    await asyncio.to_thread(aside.write_text, "".join(lines), "utf-8")
    aside.replace(path)
    return BlockDone(block.part, len(whole), sum(bool(record["error"]) for record in whole))


async def _record(
    block: Block, number: int, line: bytes, patient: PatientClient, settings: BatchSettings
) -> dict[str, Any] | None:
    """The record of a line; None where the server was away all the time."""
    record: dict[str, Any] = {"line": number, "id": None, "error": None}
    try:
        fields = json.loads(line)
        record["id"] = fields.pop("id", None)
        body = {"lane": "batch", "timeout_s": settings.timeout_s, **settings.fields, **fields}
    except (ValueError, AttributeError, TypeError):
        return {**record, "error": "no JSON object"}
    name = f"batch-{block.part.removesuffix('.jsonl').removeprefix('part-')}-{number}"
    reply = await patient.ask(name, body)
    if reply.answer is not None:
        return {**reply.answer, **record, "answer_id": reply.answer["id"]}
    return {**record, "error": reply.error} if reply.is_final else None
