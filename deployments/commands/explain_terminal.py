"""An explanation as a person reads it: the texts coloured by what their words add."""

from collections.abc import Mapping, Sequence
from typing import Any

from rich.style import Style
from rich.table import Table
from rich.text import Text

from deployments.commands.terminal import out, shown

_LISTED = 8
_RISES, _FALLS = (0, 128, 96), (192, 32, 48)
"""Backgrounds of what raises the score and of what lowers it, at their strongest."""


def print_explanation(explanation: Mapping[str, Any], texts: Mapping[str, str]) -> None:
    """The sum, the coloured texts, the words that matter most, and the classes."""
    tokens = explanation["tokens"]
    by_side: dict[str, float] = {}
    for token in tokens:
        by_side[token["side"]] = by_side.get(token["side"], 0.0) + token["value"]
    parts = "".join(f" {value:+.3f} {side}" for side, value in by_side.items())
    out.print(
        f"score [bold]{explanation['score']:+.3f}[/] = {explanation['base_value']:+.3f} base{parts}"
    )
    strongest = max((abs(token["value"]) for token in tokens), default=0.0) or 1.0
    for side, text in texts.items():
        if text:
            own = [token for token in tokens if token["side"] == side]
            out.print(Text.assemble((f"{side:<9}", "dim"), _coloured(text, own, strongest)))
    out.print(_table(sorted(tokens, key=lambda token: -abs(token["value"]))[:_LISTED]))
    classes = Table("class", "tokens", "sum", "mean", box=None)
    for each in explanation["classes"]:
        counts = str(len(each["tokens"]))
        classes.add_row(each["name"], counts, f"{each['value']:+.3f}", f"{each['mean']:+.3f}")
    out.print(classes)
    spread = explanation["standard_error"]
    error = "" if spread is None else f", standard error {spread:.4f}"
    out.print(
        f"[dim]{explanation['method']} values of {explanation['unit']}s, "
        f"{explanation['evaluations']:,} evaluations{error}, "
        f"additivity error {explanation['additivity_error']:.1e}"
        f"{', only the beginning was read' if explanation['truncated'] else ''}[/]"
    )


def _table(tokens: Sequence[Mapping[str, Any]]) -> Table:
    table = Table("adds", "word", "side", box=None, title_justify="left")
    for token in tokens:
        table.add_row(f"{token['value']:+.3f}", shown(token["text"]), token["side"])
    return table


def _coloured(text: str, tokens: Sequence[Mapping[str, Any]], strongest: float) -> Text:
    """A text with each token's background as strong as its value; red lowers, green raises."""
    coloured = Text("".join(char if char.isprintable() else " " for char in text))
    for token in tokens:
        share = token["value"] / strongest
        red, green, blue = (round(abs(share) * part) for part in (_RISES if share > 0 else _FALLS))
        if abs(share) > 0.05:
            style = Style.parse(f"white on rgb({red},{green},{blue})")
            coloured.stylize(style, token["start"], token["end"])
    return coloured
