"""The rows of a run on disk: appended as they come, kept by an interruption, read again to resume."""

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TextIO

ROWS = "rows.jsonl"
RUN = "run.json"

Fields = dict[str, Any]


class RunFolder:
    """A folder with one run: what it is (`run.json`), and its rows (`rows.jsonl`)."""

    def __init__(self, folder: Path, run: Fields) -> None:
        """Opens or begins the folder's run; raises ValueError when it holds a run of other settings."""
        folder.mkdir(parents=True, exist_ok=True)
        self._path = folder / ROWS
        _agree(folder / RUN, run)
        self._sink: TextIO = self._path.open("a", encoding="utf-8")

    def rows(self) -> Iterator[tuple[str, Fields]]:
        """Each row with its place; what an interruption left of a last one is cut off the file.

        Raises ValueError for a broken row that no interruption explains.
        """
        whole_bytes = 0
        with self._path.open("rb") as lines:
            for number, line in enumerate(lines, start=1):
                if not line.endswith(b"\n"):
                    break
                whole_bytes += len(line)
                place = f"{self._path}:{number}"
                try:
                    fields = json.loads(line)
                except ValueError as error:
                    raise broken(place) from error
                yield place, fields
        if whole_bytes < self._path.stat().st_size:
            os.truncate(self._path, whole_bytes)

    def add(self, row: Fields) -> None:
        """Append a row; it is on its way to the disk when this returns."""
        self._sink.write(json.dumps(row, ensure_ascii=False) + "\n")
        self._sink.flush()

    def close(self) -> None:
        """Make sure of the disk."""
        os.fsync(self._sink.fileno())
        self._sink.close()


def broken(place: str) -> ValueError:
    """The error of a row that is none."""
    return ValueError(f"{place} is no row of a run: remove the line to ask its question again")


def _agree(path: Path, run: Fields) -> None:
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
