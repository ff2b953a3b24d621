"""`crag explain`: what the evaluator's scores come from."""

from typing import Annotated

import typer

from crag_core.explaining import Method, Unit
from deployments.asking import DEFAULT_URL, KeyOption, UrlOption, posted
from deployments.explain_terminal import print_explanation
from deployments.terminal import JsonFlag, out

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
