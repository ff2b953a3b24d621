"""What the commands print: answers and findings as a person reads them."""

import os
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Annotated, Any, NoReturn

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from crag_core.errors import SettingsError
from deployments.doctor import Finding

JsonFlag = Annotated[bool, typer.Option("--json", help="Print JSON.")]

out = Console(highlight=False)
err = Console(stderr=True, highlight=False)


def shown(text: str) -> str:
    """Text of others, safe to print: no markup of ours, no control sequences of the terminal's."""
    return escape("".join(char if char.isprintable() or char == "\n" else " " for char in text))


def fail(message: str) -> NoReturn:
    """End the command with a sentence."""
    err.print(f"[red]error:[/] {shown(message)}", highlight=False)
    raise typer.Exit(2)


@contextmanager
def sentences_for_errors(interrupted: str = "interrupted") -> Iterator[None]:
    """Errors in what was asked for are told in their own sentence, bugs keep their traceback."""
    try:
        yield
    except SettingsError as error:
        fail(str(error))
    except KeyboardInterrupt:
        err.print(interrupted)
        raise typer.Exit(130) from None


@contextmanager
def meanwhile(what: str) -> Iterator[None]:
    """Says what takes its time."""
    with err.status(what):
        yield


@contextmanager
def output_kept_clean() -> Iterator[None]:
    """What engines and their processes write to the standard output goes to the standard error."""
    sys.stdout.flush()
    kept = os.dup(1)
    os.dup2(2, 1)
    try:
        yield
    finally:
        sys.stdout.flush()
        os.dup2(kept, 1)
        os.close(kept)


def print_findings(findings: Iterable[Finding]) -> None:
    """One line a finding, with what to do where something is not well."""
    for finding in findings:
        mark = "[green]ok[/]" if finding.well else "[red]no[/]"
        remedy = f"  -> {finding.remedy}" if finding.remedy and not finding.well else ""
        out.print(f"{mark} {finding.name}: {shown(finding.detail)}{remedy}", soft_wrap=True)


def print_answer(answer: Mapping[str, Any]) -> None:
    """An answer as a person reads it: text, decision, scores, citations, stage times."""
    trace = answer.get("trace") or {}
    out.print(f"[bold]{shown(answer['answer'])}[/]")
    thresholds = trace.get("thresholds") or {}
    limits = ", ".join(f"{name} {value:g}" for name, value in thresholds.items())
    out.print(
        f"action [bold]{answer['action'] or '-'}[/]  evidence {answer['evidence_quality']}"
        + (f"  thresholds {limits}" if limits else "")
    )
    scores = Table("document", "title", "score", box=None, title_justify="left")
    for document in trace.get("documents", []):
        score = document["score"]
        scores.add_row(
            shown(document["document_id"]),
            shown(document["title"]),
            "-" if score is None else f"{score:+.3f}",
        )
    if scores.row_count:
        out.print(scores)
    if trace.get("search_queries"):
        pages = ", ".join(
            f"{page['title']} ({page['strategy']})" for page in trace["searched"] if page["used"]
        )
        names = dict.fromkeys(query["entity"] or query["text"] for query in trace["search_queries"])
        searched = ", ".join(f'"{name}"' for name in names)
        out.print(f"searched {shown(searched)}: {shown(pages or 'nothing found')}")
    out.print(f"strips kept {trace.get('strips_kept', 0)} of {trace.get('strips_scored', 0)} scored")
    for citation in answer["citations"]:
        score = "" if citation["score"] is None else f" ({citation['score']:+.3f})"
        revision = f", revision {citation['revision']}" if citation["revision"] else ""
        title, text = shown(citation["title"]), shown(citation["text"])
        out.print(f"[cyan]\\[{citation['index']}][/] {title}{revision}{score}: {text}")
    for rung in answer["degraded"]:
        out.print(f"[yellow]degraded[/] {rung['stage']}: {rung['reason']}")
    times = "  ".join(f"{stage['stage']} {stage['seconds']:.3f} s" for stage in trace.get("stages", []))
    out.print(f"[dim]{times}[/]")


def print_search(found: Mapping[str, Any]) -> None:
    """What a search asked and found: the queries by strategy, then each page with its lead."""
    asked: dict[str, list[str]] = {}
    for query in found["queries"]:
        asked.setdefault(query["strategy"], []).append(query["text"])
    for strategy, texts in asked.items():
        out.print(f"[bold]{strategy}[/] {shown(', '.join(texts))}")
    for rung in found["degraded"]:
        out.print(f"[yellow]degraded[/] {rung['stage']}: {rung['reason']}")
    for page in found["results"]:
        score = "" if page["score"] is None else f" ({page['score']:+.3f})"
        revision = f", revision {page['revision']}" if page["revision"] else ""
        how = f"by {page['strategy']} {page['query']}{score}{revision}"
        out.print(f"\n[cyan]{shown(page['title'])}[/] {shown(how)}\n{shown(page['url'] or '')}")
        out.print(shown(page["text"]))
    if not found["results"]:
        out.print("nothing found")
    if found["same_name"]:
        out.print(f"\nothers of that name: {shown(', '.join(found['same_name']))}")
    out.print(f"[dim]{found['requests']} requests[/]")
