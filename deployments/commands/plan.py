"""`crag plan`: whether a config's models fit the cards, before anything starts."""

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from deployments.commands.terminal import JsonFlag, out, print_findings, sentences_for_errors


def plan(
    config: Annotated[Path, typer.Argument(help="A Serve config file.")],
    card_gib: Annotated[float, typer.Option(help="Memory of one card, in GiB.", min=1)] = 24.0,
    as_json: JsonFlag = False,
) -> None:
    """Plan the GPU memory of a config: weights, KV cache, peaks, and whether they fit one card.

    Sizes come from the models' own configurations; no weights are loaded, and no GPU is needed. Exit 1
    when something does not fit.
    """
    with sentences_for_errors():
        from deployments import local
        from deployments.gpu_plan import plan_gpu

        findings = list(plan_gpu(local.load_config(config), card_gib))
    if as_json:
        out.print_json(data=[asdict(finding) for finding in findings])
    else:
        print_findings(findings)
    if not all(finding.well for finding in findings):
        raise typer.Exit(1)
