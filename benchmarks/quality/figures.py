"""The figures of the papers' analysis, as SVG: types, actions, scores, reliability."""

from collections.abc import Sequence
from statistics import fmean

import numpy as np
from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.patches import Patch

from benchmarks.figures import STYLE, new_axes, svg
from benchmarks.quality.analysis import ACTIONS, SetResults
from benchmarks.quality.scoring import Scored, passages_have_answer
from benchmarks.quality.tables import by_kind

_COLOURS = {"correct": "tab:green", "ambiguous": "tab:orange", "incorrect": "tab:red", "-": "tab:grey"}
_BINS = 10
_FEWEST_PER_BIN = 5


def figures(results: SetResults) -> dict[str, str]:
    """SVG by file name; only what there is something to draw of."""
    drawn: dict[str, str] = {}
    method = results.triggering
    with rc_context(STYLE):
        if any(results.judged.values()):
            drawn["methods"] = _methods(results)
        if len(by_kind(results)) > 1:
            drawn["types"] = _types(results)
        if method is None:
            return drawn
        scored = [row for row in results.rows[method] if row.best_score is not None]
        if results.actions():
            drawn["actions"] = _actions(results)
            if len(by_kind(results)) > 1:
                drawn["types-actions"] = _heat_map(results)
        if scored:
            drawn["scores"] = _scores(results, scored)
            if reliability := _reliability(results, scored):
                drawn["reliability"] = reliability
    return drawn


def _methods(results: SetResults) -> str:
    figure, axes = new_axes(f"{results.headline}, %", "", height=0.8 + 0.35 * len(results.rows))
    names = [method for method in results.rows if results.judged[method]]
    found = [results.estimate(method) for method in names]
    errors = [[100 * (e.mean - e.low) for e in found], [100 * (e.high - e.mean) for e in found]]
    axes.barh(names, [100 * e.mean for e in found], xerr=errors, capsize=3, color="tab:blue", alpha=0.8)
    axes.invert_yaxis()
    axes.set_xlim(left=0)
    return svg(figure, axes)


def _types(results: SetResults) -> str:
    """Bars by type, coloured by the dominant action, with a line at the whole set."""
    kinds = by_kind(results)
    figure, axes = new_axes("", f"{results.headline}, %")
    shares = [100 * fmean(row.metrics[results.headline] for row in rows) for rows in kinds.values()]
    actions = [results.dominant_action(rows) for rows in kinds.values()]
    names = [f"{kind}\n{len(rows)}" for kind, rows in kinds.items()]
    bars = axes.bar(names, shares, color=[_COLOURS[action] for action in actions])
    axes.bar_label(bars, fmt="%.0f", padding=2)
    whole = 100 * fmean(row.metrics[results.headline] for rows in kinds.values() for row in rows)
    line = axes.axhline(whole, color="black", linestyle="--", label=f"all: {whole:.1f}")
    used = [Patch(color=_COLOURS[action], label=action) for action in dict.fromkeys(actions)]
    axes.legend(handles=[*used, line], frameon=False, loc="upper right")
    axes.set_ylim(0, 105)
    axes.tick_params(axis="x", labelsize=7.5)
    return svg(figure, axes)


def _heat_map(results: SetResults) -> str:
    """Type against action: accuracy as colour, the count in each cell."""
    kinds = by_kind(results)
    cells = [
        [[row.metrics[results.headline] for row in rows if row.action == action] for action in ACTIONS]
        for rows in kinds.values()
    ]
    shares = np.array([[100 * fmean(cell) if cell else np.nan for cell in row] for row in cells])
    figure, axes = new_axes("", "", height=1.0 + 0.3 * len(kinds), width=5.0)
    image = axes.imshow(shares, cmap="YlGn", vmin=0, vmax=100, aspect="auto")
    axes.grid(visible=False)
    axes.set_xticks(range(len(ACTIONS)), list(ACTIONS))
    axes.set_yticks(range(len(kinds)), list(kinds))
    for place, row in enumerate(cells):
        for column, cell in enumerate(row):
            share = shares[place, column]
            text = f"{share:.0f} ({len(cell)})" if cell else "-"
            axes.text(column, place, text, ha="center", va="center", color="w" if share > 65 else "k")
    figure.colorbar(image, ax=axes, label=f"{results.headline}, %")
    return svg(figure, axes)


def _actions(results: SetResults) -> str:
    taken = list(results.actions().values())
    counts = [taken.count(action) for action in ACTIONS]
    figure, axes = new_axes("questions", "", height=1.5)
    bars = axes.barh(list(ACTIONS), counts, color=[_COLOURS[action] for action in ACTIONS])
    axes.bar_label(bars, [f"{n} ({100 * n / len(taken):.1f} %)" for n in counts], padding=3)
    axes.margins(x=0.2)
    axes.invert_yaxis()
    return svg(figure, axes)


def _scores(results: SetResults, scored: Sequence[Scored]) -> str:
    """The best score of each question, apart by whether the documents hold the answer."""
    figure, axes = new_axes("best document's score", "questions")
    by_id = {question.id: passages_have_answer(question) for question in results.questions.questions}
    names = {True: "answer in the documents", False: "not in them", None: "unknown"}
    groups = {
        name: [row.best_score for row in scored if by_id[row.id] is known and row.best_score is not None]
        for known, name in names.items()
    }
    full = {name: values for name, values in groups.items() if values}
    axes.hist(list(full.values()), bins=30, stacked=True, label=list(full))
    _draw_thresholds(axes, scored)
    return svg(figure, axes)


def _reliability(results: SetResults, scored: Sequence[Scored]) -> str | None:
    """How often the documents hold the answer, and how often it is given, by the best score.

    Scores are raw logits and no probabilities: the curve shows whether they order, and where.
    """
    by_id = {question.id: passages_have_answer(question) for question in results.questions.questions}
    ranked = sorted(
        (row for row in scored if row.metrics and row.best_score is not None),
        key=lambda row: row.best_score or 0.0,
    )
    count = min(_BINS, len(ranked) // _FEWEST_PER_BIN)
    if count < 2:
        return None
    bins = [list(part) for part in np.array_split(np.array(ranked, dtype=object), count)]
    middles = [fmean(row.best_score for row in part) for part in bins]
    figure, axes = new_axes("best document's score (mean of equal bins)", "share of questions, %")
    right = [100 * fmean(row.metrics[results.headline] for row in part) for part in bins]
    axes.plot(middles, right, marker="o", label="answered right")
    held = [[known for row in part if (known := by_id[row.id]) is not None] for part in bins]
    if all(held):
        axes.plot(middles, [100 * fmean(part) for part in held], marker="s", label=_HELD)
    _draw_thresholds(axes, scored)
    axes.set_ylim(0, 105)
    return svg(figure, axes)


_HELD = "answer in the documents"


def _draw_thresholds(axes: Axes, scored: Sequence[Scored]) -> None:
    thresholds = next((row.thresholds for row in scored if row.thresholds), {})
    for name, style in (("upper", "-"), ("lower", ":")):
        if name in thresholds:
            value = thresholds[name]
            axes.axvline(value, color="black", linestyle=style, label=f"{name} {value:g}")
