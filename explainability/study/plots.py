"""The plots of a study, as SVG."""

from collections.abc import Sequence

import numpy as np
from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from benchmarks.figures import STYLE, new_axes, svg
from crag_core.explaining import TokenClass
from explainability.study.findings import ACTIONS, ChangeFinding, class_findings
from explainability.study.rows import Row, Token

_SHOWN_PER_ACTION = 3
_SHOWN_WORDS = 24
_RISES, _FALLS = "tab:green", "tab:red"


def plots(rows: Sequence[Row], changes: Sequence[ChangeFinding]) -> dict[str, str]:
    """SVG by file name."""
    shown = [[row for row in rows if row.action == action][:_SHOWN_PER_ACTION] for action in ACTIONS]
    with rc_context(STYLE):
        drawn = {
            "token-bars": _token_bars(shown),
            "token-heat-map": _heat_map([row for action in shown for row in action]),
            "classes-by-action": _classes(rows),
        }
        if changes:
            drawn["flips"] = _flips(changes)
    return drawn


def _token_bars(shown: Sequence[Sequence[Row]]) -> str:
    """A bar per word, an action a row, as in the open reproduction's figure."""
    figure = Figure(figsize=(14, 14), layout="constrained")
    grid = figure.subplots(len(ACTIONS), _SHOWN_PER_ACTION, squeeze=False)
    for action, samples, cells in zip(ACTIONS, shown, grid, strict=True):
        for place, axes in enumerate(cells):
            if place < len(samples):
                _bars(axes, action, samples[place])
            else:
                axes.set_axis_off()
    return svg(figure, grid[0][0])


def _bars(axes: Axes, action: str, row: Row) -> None:
    tokens = _strongest(row)
    values = [token.value for token in tokens]
    axes.barh(range(len(tokens)), values, color=[_RISES if value > 0 else _FALLS for value in values])
    axes.set_yticks(range(len(tokens)), [_label(token) for token in tokens], fontsize=7)
    axes.invert_yaxis()
    axes.axvline(0, color="black", linewidth=0.6)
    axes.set_title(f"{action} {row.score:+.2f}: {_plain(row.question)[:48]}", fontsize=8)


def _strongest(row: Row) -> list[Token]:
    """The words that matter most, in the order of the text."""
    ranked = sorted(range(len(row.tokens)), key=lambda place: -abs(row.tokens[place].value))
    return [row.tokens[place] for place in sorted(ranked[:_SHOWN_WORDS])]


def _heat_map(shown: Sequence[Row]) -> str:
    """A line per sample, a cell per word."""
    width = max((len(row.tokens) for row in shown), default=1)
    cells = np.full((len(shown), width), np.nan)
    for place, row in enumerate(shown):
        cells[place, : len(row.tokens)] = [token.value for token in row.tokens]
    limit = float(np.nanmax(np.abs(cells))) if shown else 1.0
    figure, axes = new_axes("", "", height=1.0 + 0.8 * len(shown), width=max(8.0, 0.55 * width))
    image = axes.imshow(cells, cmap="RdYlGn", vmin=-limit, vmax=limit, aspect="auto")
    axes.grid(visible=False)
    axes.set_yticks(range(len(shown)), [f"{row.action}\n{row.score:+.2f}" for row in shown])
    axes.set_xticks([])
    for place, row in enumerate(shown):
        for column, token in enumerate(row.tokens):
            axes.text(
                column, place, _plain(token.text)[:14], ha="center", va="center", rotation=60, fontsize=6
            )
    figure.colorbar(image, ax=axes, label="added to the score")
    return svg(figure, axes)


def _classes(rows: Sequence[Row]) -> str:
    """The mean value of a token, by class and action, with intervals."""
    figure, axes = new_axes("", "mean value of a token", height=3.2)
    width = 0.8 / len(ACTIONS)
    names = list(TokenClass)
    for shift, action in enumerate(ACTIONS):
        found = {
            each.token_class: each.signed
            for each in class_findings([row for row in rows if row.action == action])
        }
        places = [place for place, name in enumerate(names) if name in found]
        means = [found[names[place]] for place in places]
        axes.bar(
            [place + (shift - 1) * width for place in places],
            [each.mean for each in means],
            width,
            yerr=[[each.mean - each.low for each in means], [each.high - each.mean for each in means]],
            capsize=2,
            label=action,
        )
    axes.axhline(0, color="black", linewidth=0.6)
    axes.set_xticks(range(len(names)), [str(name) for name in names])
    return svg(figure, axes)


def _flips(changes: Sequence[ChangeFinding]) -> str:
    """From which action to which, a matrix per kind of change."""
    figure = Figure(figsize=(3.6 * len(changes), 3.2), layout="constrained")
    grid = figure.subplots(1, len(changes), squeeze=False)[0]
    for axes, finding in zip(grid, changes, strict=True):
        shares = finding.flips / np.maximum(finding.flips.sum(axis=1, keepdims=True), 1)
        axes.imshow(shares, cmap="Blues", vmin=0, vmax=1)
        axes.grid(visible=False)
        axes.set_xticks(range(len(ACTIONS)), ACTIONS, fontsize=7)
        axes.set_yticks(range(len(ACTIONS)), ACTIONS, fontsize=7)
        axes.set_title(str(finding.change), fontsize=8)
        for (before, after), count in np.ndenumerate(finding.flips):
            dark = shares[before, after] > 0.6
            axes.text(after, before, str(count), ha="center", va="center", color="w" if dark else "k")
    grid[0].set_ylabel("action before")
    return svg(figure, grid[0])


def _label(token: Token) -> str:
    side = "" if token.side == "passage" else f" ({token.side[0]})"
    return f"{_plain(token.text)[:18]}{side}"


def _plain(text: str) -> str:
    """A text of others as matplotlib may draw it: no formulas, nothing that XML refuses."""
    return "".join(char if char.isprintable() else " " for char in text).replace("$", r"\$")
