"""The tables of a run: methods, differences, actions, question types, hits, stages."""

from collections.abc import Sequence
from itertools import combinations
from statistics import fmean

from benchmarks.quality.analysis import ACTIONS, SetResults
from benchmarks.quality.methods import Method
from benchmarks.quality.scoring import Scored
from benchmarks.quality.statistics import Estimate, estimate
from benchmarks.report import Section
from crag_core.metrics import percentile


def sections(results: SetResults) -> list[Section]:
    """The tables of one set; those without rows are left out."""
    tables = (_methods, _costs, _differences, _by_action, _by_type, _types_and_actions, _hits, _stages)
    return [section for make in tables for section in [make(results)] if section.rows]


def percent(share: float) -> str:
    """A share as a percentage, or a dash where nothing was counted."""
    return "-" if share != share else f"{100 * share:.1f}"


def _methods(results: SetResults) -> Section:
    others = results.metrics[1:]
    rows = []
    for method, judged in results.judged.items():
        if not judged:
            continue
        whole = results.estimate(method)
        rows.append(
            [
                method,
                str(whole.n),
                percent(whole.mean),
                _interval(whole),
                *(_with_interval(results.estimate(method, metric)) for metric in others),
                str(sum(row.error is not None for row in judged)),
                str(sum(row.degraded for row in judged)),
            ]
        )
    header = ["method", "n", f"{results.headline} %", "95 % interval", *others, "failed", "degraded"]
    return Section("Methods", header, rows, "A question that failed counts as wrong.")


def _costs(results: SetResults) -> Section:
    rows = [
        [
            method,
            f"{fmean(row.tokens for row in all_rows):.0f}",
            f"{fmean(row.llm_calls for row in all_rows):.2f}",
            f"{fmean(row.search_calls for row in all_rows):.2f}",
            *(f"{percentile([row.seconds for row in all_rows], share):.2f}" for share in (0.5, 0.95)),
        ]
        for method, all_rows in results.rows.items()
        if all_rows
    ]
    header = ["method", "tokens", "completions", "searches", "p50 s", "p95 s"]
    return Section("Cost per question", header, rows)


def _differences(results: SetResults) -> Section:
    rows = []
    for second, first in combinations(results.rows, 2):
        if results.judged[first]:
            found = results.difference(first, second)
            rows.append(
                [
                    f"{first} - {second}",
                    f"{100 * found.mean:+.1f}",
                    f"{100 * found.low:+.1f} to {100 * found.high:+.1f}",
                    f"{found.p:.2g}",
                ]
            )
    return Section(
        f"Paired differences, {results.headline}",
        ["methods", "points", "95 % interval", "p"],
        rows,
        "The same questions by both methods: bootstrap over questions, exact McNemar test.",
    )


def _by_action(results: SetResults) -> Section:
    by_id = results.actions()
    rows = []
    for action in ACTIONS:
        ids = {question for question, taken in by_id.items() if taken == action}
        if ids:
            rows.append([action, str(len(ids)), percent(len(ids) / len(by_id)), *_each(results, ids)])
    return Section(
        f"{results.headline} % by action",
        ["action", "questions", "share %", *results.rows],
        rows,
        f"The action is that of `{results.triggering}`; the other methods answered the same questions.",
    )


def _by_type(results: SetResults) -> Section:
    rows = []
    for kind, members in by_kind(results).items():
        ids = {row.id for row in members}
        rows.append([kind, str(len(ids)), *_each(results, ids), results.dominant_action(members)])
    header = ["type", "questions", *results.rows, "dominant action"]
    return Section(f"{results.headline} % by question type", header, rows if len(rows) > 1 else [])


def _types_and_actions(results: SetResults) -> Section:
    method = results.triggering
    if method is None or len(by_kind(results)) < 2:
        return Section("", [], [])
    rows = []
    for kind, members in by_kind(results).items():
        cells = []
        for action in ACTIONS:
            values = [row.metrics[results.headline] for row in members if row.action == action]
            cells.append(f"{percent(fmean(values))} ({len(values)})" if values else "-")
        rows.append([kind, *cells])
    return Section(
        f"{results.headline} % of {method} by type and action, with counts",
        ["type", *ACTIONS],
        rows,
    )


def by_kind(results: SetResults) -> dict[str, list[Scored]]:
    """The judged rows by question type, most frequent first: of the triggering method, or the first."""
    method = results.triggering or next(iter(results.rows))
    kinds: dict[str, list[Scored]] = {}
    for row in results.judged[method]:
        kinds.setdefault(row.kind, []).append(row)
    return dict(sorted(kinds.items(), key=lambda item: -len(item[1])))


def _hits(results: SetResults) -> Section:
    rows = []
    for method, all_rows in results.rows.items():
        names = dict.fromkeys(name for row in all_rows for name in row.hits)
        for name in names:
            for action in (None, *ACTIONS):
                chosen = [
                    row.hits[name]
                    for row in all_rows
                    if name in row.hits and action in (None, row.action)
                ]
                if chosen and (action is None or method is results.triggering):
                    found = estimate([float(hit) for hit in chosen])
                    cells = [str(found.n), percent(found.mean), _interval(found)]
                    rows.append([method, name, action or "all", *cells])
    return Section(
        "Hit rates",
        ["method", "hit", "action", "questions", "%", "95 % interval"],
        rows,
        "A gold alias stands in the text named, in any letter case.",
    )


def _stages(results: SetResults) -> Section:
    rows = []
    for method, all_rows in results.rows.items():
        for stage in dict.fromkeys(stage for row in all_rows for stage in row.stages):
            times = [row.stages[stage] for row in all_rows if stage in row.stages]
            rows.append(
                [method, stage, str(len(times)), f"{fmean(times):.3f}",
                 *(f"{percentile(times, share):.3f}" for share in (0.5, 0.95))]
            )  # fmt: skip
    return Section("Stages", ["method", "stage", "answers", "mean s", "p50 s", "p95 s"], rows)


def _each(results: SetResults, ids: set[str]) -> Sequence[str]:
    """Every method's mean on some of the questions."""
    cells = []
    for method in results.rows:
        values = [row.metrics[results.headline] for row in results.judged[method] if row.id in ids]
        cells.append(percent(fmean(values)) if values else "-")
    return cells


def _interval(found: Estimate) -> str:
    return f"{percent(found.low)} to {percent(found.high)}"


def _with_interval(found: Estimate) -> str:
    return f"{percent(found.mean)} ({_interval(found)})"


def differences_from_best_rag(results: SetResults) -> str | None:
    """One sentence: how `crag` does against the better of the two `rag`s."""
    rags = [method for method in (Method.RAG_TOP1, Method.RAG) if method in results.rows]
    if Method.CRAG not in results.rows or not rags or not results.judged[Method.CRAG]:
        return None
    best = max(rags, key=lambda method: results.estimate(method).mean)
    found = results.difference(Method.CRAG, best)
    verdict = "better" if found.is_better else "worse" if found.is_worse else "not told apart"
    return (
        f"`crag` against `{best}`: {100 * found.mean:+.1f} points "
        f"({100 * found.low:+.1f} to {100 * found.high:+.1f}), {verdict}."
    )
