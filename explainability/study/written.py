"""The report of a study: Markdown, plots, and all values as JSON."""

import json
from collections.abc import Sequence
from pathlib import Path

from benchmarks.quality.statistics import Estimate
from benchmarks.report import table
from crag_core.explaining import TokenClass
from explainability.study.findings import (
    ACTIONS,
    ChangeFinding,
    agreement,
    by_entity_type,
    change_findings,
    class_findings,
    hypothesis,
    names_against_other_words,
)
from explainability.study.plots import plots
from explainability.study.rows import Row
from explainability.study.session import StudySettings

REPORT = "report.md"
VALUES = "values.json"


def write_report(folder: Path, rows: Sequence[Row], settings: StudySettings, evaluator: str) -> Path:
    """Writes report, plots and values into the folder; returns the report's path."""
    changes = change_findings(rows)
    drawn = plots([row for row in rows if row.set_name == settings.sets[0]] or rows, changes)
    for name, drawing in drawn.items():
        _write(folder / f"{name}.svg", drawing)
    _write(folder / VALUES, json.dumps([row.as_fields() for row in rows], ensure_ascii=False, indent=1))
    report = "\n".join(
        [
            "# What the retrieval evaluator looks at",
            "",
            _setting(rows, settings, evaluator),
            *_classes(rows, settings),
            *_hypothesis(rows),
            *_changes(changes),
            *_types(rows),
            *_checks(rows, settings),
            *(f"![{name}]({name}.svg)\n" for name in drawn),
        ]
    )
    _write(folder / REPORT, report)
    return folder / REPORT


def _setting(rows: Sequence[Row], settings: StudySettings, evaluator: str) -> str:
    counts = ", ".join(
        f"{name}: "
        + ", ".join(
            f"{sum(row.set_name == name and row.action == action for row in rows)} {action}"
            for action in ACTIONS
        )
        for name in settings.sets
    )
    return (
        f"Evaluator `{evaluator}`; {len(rows)} samples ({counts}), one passage of a question each, "
        f"{settings.max_words} words at most, at most {_evaluations(settings)} evaluations a sample; "
        f"Owen values of words. Means are per sample, with 95 % bootstrap intervals over samples.\n"
    )


def _evaluations(settings: StudySettings) -> str:
    if settings.evaluations_per_word is None:
        return str(settings.max_evaluations)
    return f"{settings.evaluations_per_word} x words + 1"


def _classes(rows: Sequence[Row], settings: StudySettings) -> list[str]:
    lines = ["## Classes of words\n"]
    for name in settings.sets:
        own = [row for row in rows if row.set_name == name]
        groups = {action: [row for row in own if row.action == action] for action in ACTIONS}
        found = {
            action: {each.token_class: each for each in class_findings(each_rows)}
            for action, each_rows in {**groups, "all": own}.items()
        }
        cells = [
            [
                str(token_class),
                *(
                    f"{_estimate(each.signed)}, strength {each.absolute.mean:.3f}, n {each.signed.n}"
                    if (each := found[action].get(token_class))
                    else "-"
                    for action in found
                ),
            ]
            for token_class in TokenClass
            if token_class in found["all"]
        ]
        lines += [f"### {name}\n", table(["class", *found], cells), ""]
    stronger = names_against_other_words(rows)
    if stronger is not None:
        lines.append(
            f"A word of a name that both texts share is stronger than another word of the same pair by "
            f"{stronger.mean:+.4f} [{stronger.low:+.4f}, {stronger.high:+.4f}] "
            f"(paired, n {stronger.n}, p {stronger.p:.2g}).\n"
        )
    return lines


def _hypothesis(rows: Sequence[Row]) -> list[str]:
    found = hypothesis(rows)
    if found is None:
        return ["Too few samples with a name in the question to test alignment against similarity.\n"]
    verdict = "holds" if found.holds else "does not hold beyond noise"
    return [
        "## Does entity alignment explain more than semantic similarity?\n",
        f"It {verdict}. Of the scores' variance the share of the question's name words in the passage "
        f"explains {found.alignment:.3f} beyond similarity, and the cosine of both texts without those "
        f"words {found.similarity:.3f} beyond alignment: a difference of "
        f"{_estimate(found.difference)}, n {found.n}.\n",
    ]


def _changes(changes: Sequence[ChangeFinding]) -> list[str]:
    if not changes:
        return []
    cells = [
        [
            str(each.change),
            str(each.moved.n),
            _estimate(each.moved),
            f"{100 * each.flipped:.0f} %",
            *(f"{row[0]} / {row[1]} / {row[2]}" for row in each.flips.tolist()),
        ]
        for each in changes
    ]
    header = ["change", "n", "score moves by", "actions flipped", *(f"from {a}" for a in ACTIONS)]
    note = f"The last columns count the actions after the change: {' / '.join(ACTIONS)}.\n"
    return ["## Counterfactuals\n", table(header, cells), "", note]


def _types(rows: Sequence[Row]) -> list[str]:
    found = by_entity_type(rows)
    if not found:
        return []
    cells = [[label, str(each.n), _estimate(each)] for label, each in found.items()]
    return ["## Shared names, by the kind of name\n", table(["label", "n", "mean value"], cells), ""]


def _checks(rows: Sequence[Row], settings: StudySettings) -> list[str]:
    worst = max(row.additivity_error for row in rows)
    spreads = [row.standard_error for row in rows if row.standard_error is not None]
    lines = [
        "## Checks\n",
        f"- Largest additivity error: {worst:.1e}.",
        f"- Evaluations: {sum(row.evaluations for row in rows):,}.",
    ]
    if spreads:
        lines.append(
            f"- {len(spreads)} samples were estimated; mean standard error of a value "
            f"{sum(spreads) / len(spreads):.4f}."
        )
    others = {
        f"method `{settings.second}`": agreement(rows, lambda row: row.second),
        "integrated gradients": agreement(rows, lambda row: row.gradients),
    }
    for name, found in others.items():
        if found is not None:
            lines.append(f"- Rank correlation with {name}: {_estimate(found)}, n {found.n}.")
    return [*lines, ""]


def _estimate(found: Estimate) -> str:
    return f"{found.mean:+.3f} [{found.low:+.3f}, {found.high:+.3f}]"


def _write(path: Path, text: str) -> None:
    aside = path.with_name(f"{path.name}.partial")
    aside.write_text(text, "utf-8")
    aside.replace(path)
