"""A run written down: `report.md` with its figures beside it, and `report.json` for programs."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from benchmarks.quality.analysis import SetResults
from benchmarks.quality.figures import figures
from benchmarks.quality.tables import differences_from_best_rag, sections
from benchmarks.report import parts_of, write_files

_TITLES = {
    "methods": "Accuracy by method, with 95 % intervals",
    "types": "Accuracy by question type, coloured by the dominant action",
    "types-actions": "Accuracy by question type and action, with counts",
    "actions": "Actions taken",
    "scores": "Best score of each question's documents, with the thresholds",
    "reliability": "What a score is worth",
}


def markdown(results: Sequence[SetResults], run: Mapping[str, Any]) -> str:
    """Every table of every set; each set's title names the documents and the search of the run."""
    parts: list[str] = []
    for each in results:
        parts.append(f"## {_title(each, run)}")
        parts += [f"> {warning}" for warning in _warnings(each)]
        if found := differences_from_best_rag(each):
            parts.append(found)
        parts += parts_of(sections(each))
    return "\n\n".join(parts)


def as_json(results: Sequence[SetResults], run: Mapping[str, Any]) -> dict[str, Any]:
    """The headline figures for programs: every metric with its interval, every paired difference."""
    return {"format": 1, "run": dict(run), "sets": [_set_as_json(each) for each in results]}


def write(folder: Path, results: Sequence[SetResults], run: Mapping[str, Any]) -> list[Path]:
    """The report and its figures, each file whole or not there. Raises OSError."""
    texts: dict[str, str] = {}
    parts = [markdown(results, run)]
    for each in results:
        for name, svg in figures(each).items():
            file = f"{each.questions.name}-{name}.svg"
            texts[file] = svg
            parts.append(f"![{each.questions.name}: {_TITLES[name]}]({file})")
    texts["report.md"] = "\n\n".join(parts) + "\n"
    texts["report.json"] = json.dumps(as_json(results, run), indent=1) + "\n"
    return write_files(folder, texts)


def _title(results: SetResults, run: Mapping[str, Any]) -> str:
    count = len(results.questions.questions) - results.unasked
    searched = {source for rows in results.rows.values() for row in rows for source in row.sources}
    side = run["search"] or ", ".join(sorted(searched)) or "nothing"
    return f"{results.questions.name}: {count} questions, documents {run['documents']}, search {side}"


def _warnings(results: SetResults) -> list[str]:
    found = []
    if results.unasked:
        found.append(f"{results.unasked} questions were not asked of every method, and are left out.")
    if results.without_gold:
        found.append(f"{results.without_gold} questions have no gold, and are in no accuracy.")
    failed = {
        method: sum(row.error is not None for row in rows) for method, rows in results.rows.items()
    }
    if any(failed.values()):
        told = ", ".join(f"{count} of {method}" for method, count in failed.items() if count)
        found.append(f"Failed, and counted as wrong: {told}. The same command asks them again.")
    return found


def _set_as_json(results: SetResults) -> dict[str, Any]:
    methods = [method for method in results.rows if results.judged[method]]
    return {
        "set": results.questions.name,
        "sha256": results.questions.sha256,
        "unasked": results.unasked,
        "without_gold": results.without_gold,
        "failed": {m: sum(row.error is not None for row in rows) for m, rows in results.rows.items()},
        "methods": {
            method: {metric: asdict(results.estimate(method, metric)) for metric in results.metrics}
            for method in methods
        },
        "differences": [
            {"first": first, "second": second, **asdict(results.difference(first, second))}
            for place, second in enumerate(methods)
            for first in methods[place + 1 :]
        ],
        "tables": {
            section.title: [dict(zip(section.header, row, strict=True)) for row in section.rows]
            for section in sections(results)
        },
    }
