"""What the commands print: answers and findings as a person reads them."""

from collections.abc import Iterable, Mapping
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from deployments.doctor import Finding

out = Console(highlight=False)
err = Console(stderr=True, highlight=False)


def shown(text: str) -> str:
    """Text of others, safe to print: no markup of ours, no control sequences of the terminal's."""
    return escape("".join(char if char.isprintable() or char == "\n" else " " for char in text))


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
    if trace.get("search_query"):
        pages = ", ".join(page["title"] for page in trace["searched"]) or "nothing found"
        out.print(f'searched "{shown(trace["search_query"])}": {shown(pages)}')
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
