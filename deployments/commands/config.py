"""`crag config`: what a config file amounts to."""

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from deployments.commands.terminal import JsonFlag, out, sentences_for_errors, shown

config = typer.Typer(no_args_is_help=True, help="Config files.")


@config.callback()
def configs() -> None:
    """Config files: what they amount to."""


@config.command()
def show(
    file: Annotated[Path, typer.Argument(metavar="CONFIG", help="A Serve config file.")],
    as_json: JsonFlag = False,
) -> None:
    """Print every setting in force, and where it comes from: the file with its line, or a default.

    Secrets are never shown, only whether they are set.
    """
    with sentences_for_errors():
        from deployments.effective_settings import effective_settings

        settings = effective_settings(file)
    if as_json:
        out.print_json(data=[asdict(setting) for setting in settings], default=str)
        return
    width = max(len(setting.path) for setting in settings)
    for setting in settings:  # no table: it would cut what grep looks for
        value = shown(str(setting.value))
        out.print(f"{setting.path:{width}}  {value}  [dim]{shown(setting.source)}[/]", soft_wrap=True)
