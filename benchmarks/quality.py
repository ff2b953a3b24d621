"""Quality over the HTTP API: a question set through each pipeline, scored against its gold aliases."""

import asyncio
import json
import sys
import time
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Annotated

import httpx
import typer
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TaskID,
    TextColumn,
    TimeElapsedColumn,
)

from benchmarks.datasets import Item, read_items
from benchmarks.report import markdown
from crag_core.metrics import contains_answer
from crag_core.types import PipelineName

PIPELINES = [PipelineName.NO_RETRIEVAL, PipelineName.RAG, PipelineName.CRAG]


@dataclass(frozen=True, slots=True)
class Result:
    """One question through one pipeline; `error` is set where no answer came, and counts as wrong."""

    id: str
    pipeline: str
    seconds: float
    answer: str = ""
    action: str | None = None
    correct: bool = False
    correct_case_sensitive: bool = False
    error: str | None = None
    stages: dict[str, float] = field(default_factory=dict)
    degraded: tuple[str, ...] = ()
    tokens: int = 0


def quality(
    data: Annotated[Path, typer.Option(help="Folder with the question set.", exists=True)],
    name: Annotated[str, typer.Option(help="Question set: file name without .jsonl.")] = "popqa",
    limit: Annotated[int | None, typer.Option(help="Only the first so many.", min=1)] = None,
    pipeline: Annotated[list[PipelineName] | None, typer.Option(help="Default: all three.")] = None,
    url: Annotated[str, typer.Option(help="Where the server is.")] = "http://127.0.0.1:8000",
    concurrency: Annotated[int, typer.Option(help="Requests in flight.", min=1, max=256)] = 8,
    timeout_s: Annotated[float, typer.Option(help="Deadline of one request.", min=1)] = 120.0,
    out: Annotated[Path | None, typer.Option(help="Write every result here, as JSON lines.")] = None,
) -> None:
    """Answer a question set through each pipeline and print accuracy, latency and stage times.

    Answers are forced, as in the papers; a failed request counts as wrong. Exit 1 when any failed.
    """
    try:
        items = read_items(data, name, limit)
    except (OSError, ValueError) as error:
        print(f"error: {error}", file=sys.stderr)
        raise typer.Exit(2) from error
    url = url.rstrip("/")
    try:
        httpx.get(f"{url}/livez", timeout=10).raise_for_status()
    except httpx.HTTPError as error:
        print(f"error: no server answers at {url}: {error}", file=sys.stderr)
        raise typer.Exit(2) from error
    results = asyncio.run(_ask_all(items, pipeline or PIPELINES, url, concurrency, timeout_s))
    if out is not None:
        _write(out, results)
    print(markdown(f"{name}, {len(items)} questions, {concurrency} in flight", results))
    if any(result.error for result in results):
        raise typer.Exit(1)


async def _ask_all(
    items: Sequence[Item],
    pipelines: Sequence[PipelineName],
    url: str,
    concurrency: int,
    timeout_s: float,
) -> list[Result]:
    """Every question through every pipeline, one pipeline after the other."""
    slots = asyncio.Semaphore(concurrency)
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns) as bar:
        async with httpx.AsyncClient(base_url=url, timeout=timeout_s + 10) as client:

            async def one(item: Item, pipeline: PipelineName, task: TaskID) -> Result:
                async with slots:
                    result = await ask(client, item, pipeline, timeout_s)
                bar.advance(task)
                return result

            results: list[Result] = []
            for pipeline in pipelines:
                task = bar.add_task(pipeline, total=len(items))
                results += await asyncio.gather(*(one(item, pipeline, task) for item in items))
    return results


async def ask(client: httpx.AsyncClient, item: Item, pipeline: PipelineName, timeout_s: float) -> Result:
    """One question through one pipeline; a failure is a result with its error's code."""
    started = time.perf_counter()
    body = {
        "question": item.question,
        "pipeline": pipeline,
        "timeout_s": timeout_s,
        "options": {"force_answer": True},
    }
    try:
        response = await client.post("/v1/answer", json=body)
        reply = response.json()
    except (httpx.HTTPError, ValueError) as error:
        return Result(item.id, pipeline, time.perf_counter() - started, error=type(error).__name__)
    seconds = time.perf_counter() - started
    if response.status_code != httpx.codes.OK:
        return Result(item.id, pipeline, seconds, error=reply["error"]["code"])
    text = reply["answer"]
    return Result(
        id=item.id,
        pipeline=pipeline,
        seconds=seconds,
        answer=text,
        action=reply["action"],
        correct=contains_answer(text, item.answers, case_sensitive=False),
        correct_case_sensitive=contains_answer(text, item.answers, case_sensitive=True),
        stages={stage["stage"]: stage["seconds"] for stage in reply["trace"]["stages"]},
        degraded=tuple(rung["reason"] for rung in reply["degraded"]),
        tokens=reply["usage"]["prompt_tokens"] + reply["usage"]["completion_tokens"],
    )


def _write(path: Path, results: Iterable[Result]) -> None:
    aside = path.with_name(f"{path.name}.partial")
    aside.write_text(
        "".join(json.dumps(asdict(result), ensure_ascii=False) + "\n" for result in results), "utf-8"
    )
    aside.replace(path)
