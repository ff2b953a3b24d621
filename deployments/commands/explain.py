"""`crag explain`: what the evaluator's scores come from."""

import asyncio
from pathlib import Path
from typing import Annotated

import typer
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from crag_core.explaining import Method, Unit
from deployments.commands.asking import DEFAULT_URL, KeyOption, UrlOption, posted
from deployments.commands.explain_terminal import print_explanation
from deployments.commands.terminal import JsonFlag, err, out, sentences_for_errors

explain = typer.Typer(no_args_is_help=True, help="Explanations of the evaluator's scores.")


@explain.callback()
def explanations() -> None:
    """Explanations of the evaluator's scores: of one pair by a running server, or over a data set."""


@explain.command()
def pair(
    question: Annotated[str, typer.Argument(help="The question.")],
    passage: Annotated[str, typer.Argument(help="The passage whose score is explained.")],
    title: Annotated[str, typer.Option(help="The passage's title.")] = "",
    unit: Annotated[Unit, typer.Option(help="What gets a value of its own.")] = Unit.WORD,
    method: Annotated[Method, typer.Option(help="How values are found.")] = Method.AUTO,
    max_evaluations: Annotated[
        int | None, typer.Option(help="Masked inputs at most; the server's default.", min=16)
    ] = None,
    seed: Annotated[int, typer.Option(help="Of what is drawn by chance.", min=0)] = 0,
    url: UrlOption = DEFAULT_URL,
    timeout_s: Annotated[float, typer.Option(help="Seconds to wait.", min=0.1)] = 60.0,
    api_key: KeyOption = None,
    as_json: JsonFlag = False,
) -> None:
    """Ask a running server what each word of a question and a passage adds to the passage's score."""
    body = {
        "question": question,
        "passage": {"text": passage, "title": title},
        "unit": unit,
        "method": method,
        "max_evaluations": max_evaluations,
        "seed": seed,
        "timeout_s": timeout_s,
    }
    explanation = posted(url, "/v1/explain", body, timeout_s + 5, api_key)
    if as_json:
        out.print_json(data=explanation)
    else:
        print_explanation(explanation, {"question": question, "title": title, "passage": passage})


@explain.command()
def study(
    data: Annotated[Path, typer.Option(help="Folder with the sets, such as popqa.jsonl.gz.")],
    out_folder: Annotated[Path, typer.Option("--out", help="Folder of the study.")],
    config: Annotated[
        Path, typer.Option(help="A Serve config file, whose evaluator is studied.")
    ] = Path("configs/embedded.yaml"),
    evaluator: Annotated[
        Path | None, typer.Option(help="Folder of another evaluator than the config's.")
    ] = None,
    sets: Annotated[list[str] | None, typer.Option("--set", help="A set; may be repeated.")] = None,
    per_action: Annotated[int, typer.Option(help="Samples of each action.", min=1)] = 100,
    max_words: Annotated[int, typer.Option(help="Words of a passage at most.", min=5)] = 15,
    max_evaluations: Annotated[
        int, typer.Option(help="Masked inputs of a sample at most.", min=16)
    ] = 512,
    reproduce: Annotated[
        bool,
        typer.Option(
            "--reproduce",
            help="The open reproduction's protocol: three samples an action, 15 words, 2 x words + 1.",
        ),
    ] = False,
    seed: Annotated[int, typer.Option(help="Of the samples and of what is drawn by chance.")] = 0,
    as_json: JsonFlag = False,
) -> None:
    """Explain the scores of many real pairs, and say what the evaluator looks at, with intervals.

    Goes on where it was interrupted; writes a report, plots and all values.
    """
    interrupted = "interrupted: the same command goes on where this one stopped"
    with sentences_for_errors(interrupted):
        from deployments.local import app_settings, load_config
        from explainability.study.samples import SETS
        from explainability.study.session import StudySettings, reproduction
        from explainability.study.session import study as run
        from explainability.study.written import write_report

        app = app_settings(load_config(config))
        if evaluator is not None:
            named = app.evaluator.model_copy(update={"model": str(evaluator)})
            app = app.model_copy(update={"evaluator": named})
        settings = (
            reproduction(seed)
            if reproduce
            else StudySettings(tuple(sets or SETS), per_action, max_words, max_evaluations, seed=seed)
        )
        columns = (TextColumn("explaining"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
        with Progress(*columns, console=err) as bar:
            task = bar.add_task("explaining", total=None)

            def show(done: int, wanted: int) -> None:
                bar.update(task, completed=done, total=wanted)

            rows = asyncio.run(run(app, data, out_folder, settings, show))
        report = write_report(out_folder, rows, settings, app.evaluator.model)
    if as_json:
        out.print_json(data={"samples": len(rows), "report": str(report)})
    else:
        out.print(f"{len(rows)} samples: {report}")
