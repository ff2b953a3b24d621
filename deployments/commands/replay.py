"""`crag replay`: a recorded decision, made again."""

import asyncio
import json
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from crag_core.errors import SettingsError
from deployments.commands.terminal import JsonFlag, out, sentences_for_errors, shown
from deployments.records.record import DecisionRecord
from deployments.records.replay import differences


def replay(
    file: Annotated[Path, typer.Argument(help="A decision record, as GET /v1/answers/ID gives it.")],
    as_json: JsonFlag = False,
) -> None:
    """Decide a recorded answer again from the evidence in its record, without models, and compare.

    Exit 0: the same decision; 1: it differs; 2: no record.
    """
    with sentences_for_errors():
        try:
            content = file.read_bytes()
        except OSError as error:
            raise SettingsError(f"cannot read {file}: {error.strerror}") from error
        record = DecisionRecord.from_json(content)
        found = asyncio.run(differences(record))
    if as_json:
        listed = [asdict(difference) for difference in found]
        print(json.dumps({"same": not found, "differences": listed}, indent=1, default=str))
    else:
        answer = record.answer
        out.print(f"[bold]{shown(record.ask.question.text)}[/]")
        out.print(f"{answer.pipeline}, action {answer.action or '-'}, {len(answer.citations)} strips")
        for difference in found:
            out.print(f"[red]{difference.what}[/] differs", highlight=False)
            out.print(f"  then {shown(str(difference.then))}", soft_wrap=True)
            out.print(f"  now  {shown(str(difference.now))}", soft_wrap=True)
        if not found:
            out.print("[green]the same decision[/]")
    raise typer.Exit(1 if found else 0)
