"""The rows of a run on disk, one per question and method: appended as they come, resumed by id."""

import json
from collections.abc import Iterable, Mapping
from contextlib import closing
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from benchmarks.quality.methods import Method
from benchmarks.run_folder import RUN, RunFolder, broken

Key = tuple[str, Method, str]
"""Set, method, and the question's id."""


@dataclass(frozen=True, slots=True)
class Row:
    """One question by one method: the API's whole answer with its trace, or the error that ended it."""

    set: str
    method: Method
    id: str
    seconds: float
    attempts: int
    reply: dict[str, Any] | None = None
    error: str | None = None

    @property
    def key(self) -> Key:
        """What aligns rows with questions, and with one another."""
        return (self.set, self.method, self.id)


class Ledger:
    """The rows of one folder; a row that was asked again replaces the one before."""

    def __init__(self, folder: Path, run: dict[str, Any]) -> None:
        """Opens or begins the folder's run.

        Raises ValueError when the folder holds a run of other settings, or a broken row that no
        interruption explains.
        """
        self._folder = RunFolder(folder, run)
        self.rows: dict[Key, Row] = {}
        for place, fields in self._folder.rows():
            try:
                row = Row(**{**fields, "method": Method(fields["method"])})
            except (ValueError, TypeError, KeyError) as error:
                raise broken(place) from error
            self.rows[row.key] = row

    def missing(self, keys: Iterable[Key]) -> list[Key]:
        """The keys without an answer; failures are asked again."""
        return [key for key in keys if key not in self.rows or self.rows[key].error is not None]

    def add(self, row: Row) -> None:
        """Append a row; it is on its way to the disk when this returns."""
        self.rows[row.key] = row
        self._folder.add(asdict(row))

    def close(self) -> None:
        """Make sure of the disk."""
        self._folder.close()


def read_rows(folder: Path) -> Mapping[Key, Row]:
    """The rows of a finished run; raises ValueError where there is none, or as a Ledger does."""
    if not (folder / RUN).is_file():
        raise ValueError(f"{folder} holds no {RUN}: name the --out of a `crag quality` run")
    with closing(Ledger(folder, json.loads((folder / RUN).read_text("utf-8")))) as ledger:
        return ledger.rows
