"""What all plots of reports share: their style, their axes, and SVG as text."""

from io import StringIO
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure

STYLE: Any = {"svg.fonttype": "none", "svg.hashsalt": "crag", "font.family": "sans-serif",
              "font.size": 9.0, "axes.grid": True, "grid.alpha": 0.3, "axes.spines.top": False,
              "axes.spines.right": False}  # fmt: skip
"""Settings for `matplotlib.rc_context`; equal figures are equal files."""


def new_axes(x: str, y: str, height: float = 2.6, width: float = 7.2) -> tuple[Figure, Axes]:
    """An empty figure with labelled axes; sizes in inches."""
    figure = Figure(figsize=(width, height), layout="constrained")
    axes = figure.subplots()
    axes.set_xlabel(x)
    axes.set_ylabel(y)
    return figure, axes


def svg(figure: Figure, axes: Axes) -> str:
    """The figure as SVG, with a legend where anything is labelled."""
    if axes.get_legend_handles_labels()[1]:
        axes.legend(loc="best", frameon=False)
    text = StringIO()
    figure.savefig(text, format="svg", metadata={"Date": None})
    return text.getvalue()
