"""The rows of a run on disk, one per question and method: appended as they come, resumed by id."""

import json
import os
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, TextIO

from benchmarks.quality.methods import Method

ROWS = "rows.jsonl"
RUN = "run.json"

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
        folder.mkdir(parents=True, exist_ok=True)
        self.rows: dict[Key, Row] = {}
        self._path = folder / ROWS
        _agree(folder / RUN, run)
        for row in _read(self._path):
            self.rows[row.key] = row
        self._sink: TextIO = self._path.open("a", encoding="utf-8")

    def missing(self, keys: Iterable[Key]) -> list[Key]:
        """The keys without an answer; failures are asked again."""
        return [key for key in keys if key not in self.rows or self.rows[key].error is not None]

    def add(self, row: Row) -> None:
        """Append a row; it is on its way to the disk when this returns."""
        self.rows[row.key] = row
        self._sink.write(json.dumps(asdict(row), ensure_ascii=False) + "\n")
        self._sink.flush()

    def close(self) -> None:
        """Make sure of the disk."""
        os.fsync(self._sink.fileno())
        self._sink.close()


def _agree(path: Path, run: dict[str, Any]) -> None:
    """Note what this folder's run is, or hold this run against it."""
    if not path.exists():
        aside = path.with_name(f"{path.name}.partial")
        aside.write_text(json.dumps(run, indent=1) + "\n", "utf-8")
        aside.replace(path)
        return
    found = json.loads(path.read_text("utf-8"))
    differing = sorted(name for name in {*run, *found} if run.get(name) != found.get(name))
    if differing:
        told = "; ".join(f"{name} was {found.get(name)!r}, now {run.get(name)!r}" for name in differing)
        raise ValueError(
            f"{path.parent} holds a run of other settings ({told}): resume it with its own, or choose "
            "another --out"
        )


def _read(path: Path) -> Iterable[Row]:
    """The whole rows; what an interruption left of a last one is cut off the file."""
    if not path.exists():
        return
    whole_bytes = 0
    with path.open("rb") as lines:
        for number, line in enumerate(lines, start=1):
            if not line.endswith(b"\n"):
                break
            whole_bytes += len(line)
            try:
                fields = json.loads(line)
                yield Row(**{**fields, "method": Method(fields["method"])})
            except (ValueError, TypeError, KeyError) as error:
                raise ValueError(
                    f"{path}:{number} is no row of a run: remove the line to ask its question again"
                ) from error
    if whole_bytes < path.stat().st_size:
        os.truncate(path, whole_bytes)
