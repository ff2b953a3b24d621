"""`python -m benchmarks compact-plans`: the plans that a chat model writes, for `compact-coverage`."""

import asyncio
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from benchmarks.datasets import read_rows
from crag_core.compact.compact import completed
from crag_core.compact.decomposition import decomposition_prompt, plan_sampling
from crag_core.compact.settings import CompactSettings, PlanLimits
from crag_core.context import RequestContext
from crag_core.errors import SettingsError
from crag_core.protocols import Generator
from crag_core.trace import Recorder
from deployments.settings import GeneratorSettings

_AT_ONCE = 16
_DEADLINE_S = 3_600.0


def compact_plans(
    data: Annotated[Path, typer.Option(help="Folder with 2wiki.")],
    out: Annotated[Path, typer.Option(help="File of JSON lines {id, plan}.")],
    generator: Annotated[str, typer.Option(help="Folder or hub name of a chat model.")],
    dtype: Annotated[str, typer.Option(help="As in the settings.")] = "float32",
    max_sub_questions: Annotated[int, typer.Option(help="Sub-questions of a plan.", min=1)] = 4,
    max_new_tokens: Annotated[int, typer.Option(help="Tokens of a plan at most.", min=16)] = 160,
    limit: Annotated[int | None, typer.Option(help="Questions.", min=1)] = None,
) -> None:
    """Write the decompositions of CompactRAG's 2Wiki questions by a chat model in vLLM."""
    from deployments.backends.vllm_engine import VllmEngine

    settings = CompactSettings(
        limits=PlanLimits(max_sub_questions=max_sub_questions), plan_max_new_tokens=max_new_tokens
    )
    model = GeneratorSettings.model_validate(
        {"model": generator, "dtype": dtype, "max_model_len": 2048, "enforce_eager": True}
    )

    async def run() -> None:
        engine = VllmEngine(model)
        try:
            await _write(engine, rows, out, settings)
        finally:
            engine.shutdown()

    try:
        rows = [row for row in read_rows(data, "2wiki") if "compactrag" in row["sources"]][:limit]
        asyncio.run(run())
    except (SettingsError, FileNotFoundError, ValueError) as error:
        typer.echo(f"error: {error}", err=True)
        raise typer.Exit(2) from None


async def _write(
    engine: Generator, rows: Sequence[dict[str, Any]], out: Path, settings: CompactSettings
) -> None:
    places = asyncio.Semaphore(_AT_ONCE)
    recorder = Recorder()

    async def plan(row: dict[str, Any]) -> dict[str, str]:
        async with places:
            ctx = RequestContext.starting_now(row["id"], _DEADLINE_S)
            prompt = decomposition_prompt(row["question"])
            return {
                "id": row["id"],
                "plan": await completed(ctx, engine, prompt, plan_sampling(settings), recorder),
            }

    plans = await asyncio.gather(*map(plan, rows))
    text = "".join(json.dumps(each, ensure_ascii=False) + "\n" for each in plans)
    await asyncio.to_thread(out.write_text, text, "utf-8")
    spent = recorder.spent
    report = {
        "plans": len(plans),
        "prompt_tokens": spent.prompt_tokens,
        "completion_tokens": spent.completion_tokens,
    }
    typer.echo(json.dumps(report))
