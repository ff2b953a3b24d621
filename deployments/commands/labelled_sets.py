"""Options that name labelled question sets."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

DataOption = Annotated[
    Path, typer.Option(help="Folder with the question sets and wiki_corpus.", exists=True)
]
SetsOption = Annotated[
    list[str] | None,
    typer.Option("--set", help="May be repeated; default popqa, hotpotqa, 2wiki, musique."),
]


def chosen_sets(sets: Sequence[str] | None) -> Sequence[str]:
    """The sets asked for, or all that have labels."""
    from training.labelled_pairs import ALL_SETS

    return tuple(sets) if sets else ALL_SETS
