"""`python -m benchmarks engine`."""

from pathlib import Path
from typing import Annotated, Literal

import torch
import typer

from benchmarks.engine.measure import measure
from benchmarks.engine.report import markdown
from benchmarks.engine.shapes import Shape, random_t5
from benchmarks.engine.workload import Workload, generated_workload, real_workload
from benchmarks.published import Published
from deployments.backends.device import has_bfloat16_products

Dtype = Literal["bfloat16", "float32"]


def engine(
    shape: Annotated[Shape, typer.Option(help="Size of the T5.")] = Shape.SMALL,
    seconds: Annotated[float, typer.Option(help="Time for the rounds; three are made anyway.")] = 120.0,
    questions: Annotated[int, typer.Option(help="Questions in flight, 31 pairs each.", min=1)] = 1,
    threads: Annotated[int, typer.Option(help="CPU threads.", min=1)] = 2,
    dtype: Annotated[
        Dtype | None, typer.Option(help="Of ours and its peers; else the one that is fast here.")
    ] = None,
    decisions: Annotated[int, typer.Option(help="Pairs whose actions are compared.", min=1)] = 310,
    data: Annotated[
        Path | None, typer.Option(help="Take real pairs from popqa.jsonl[.gz] in this folder.")
    ] = None,
    tokenizer: Annotated[
        Path, typer.Option(help="Folder of the tokenizer that real pairs are read with.")
    ] = Path(".models/all-minilm-l6-v2"),
    litserve: Annotated[bool, typer.Option(help="Run LitServe too, where pip can install it.")] = True,
    out: Annotated[Path | None, typer.Option(help="Folder for JSON and Markdown.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of Markdown.")] = False,
) -> None:
    """Pairs a second of the T5 engine and its peers, on random weights; exit 1 if a score is wrong."""
    torch.set_num_threads(threads)
    work = _workload(data, tokenizer, questions, decisions)
    dtype = dtype or ("bfloat16" if has_bfloat16_products(torch.device("cpu")) else "float32")
    precision: torch.dtype = getattr(torch, dtype)
    result = measure(random_t5(shape.config), work, precision, threads, seconds, with_litserve=litserve)
    text = markdown(f"T5-{shape}, {work.description}, ours and its peers in {dtype}", result)
    found = {"shape": shape, "is_right": result.is_right, **result.as_dict()}
    Published(f"engine-{shape}", found, text).show(as_json=as_json, out=out)
    if not result.is_right:
        raise typer.Exit(1)


def _workload(data: Path | None, tokenizer: Path, questions: int, decisions: int) -> Workload:
    if data is None:
        return generated_workload(questions, decisions)
    try:
        return real_workload(data, tokenizer, questions, decisions)
    except (FileNotFoundError, ValueError) as error:
        raise typer.BadParameter(str(error)) from error
