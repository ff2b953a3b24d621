"""Input files cut into blocks of lines: the unit that is answered, written and resumed."""

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from crag_core.errors import SettingsError

PART = "part-{file:04d}-{block:06d}.jsonl"


@dataclass(frozen=True, slots=True)
class Block:
    """Some lines of one file: `lines` of them from byte `start`, the first being number `first_line`."""

    path: str
    start: int
    end: int
    first_line: int
    lines: int
    part: str

    def read(self) -> Iterator[tuple[int, bytes]]:
        """Each line with its number, from 1."""
        with Path(self.path).open("rb") as file:
            file.seek(self.start)
            text = file.read(self.end - self.start)
        if text.endswith(b"\n"):
            text = text[:-1]
        # only a line feed ends a line: texts hold U+2028 and the like
        yield from enumerate(text.split(b"\n"), start=self.first_line)


def blocks_of(files: Sequence[Path], lines_per_block: int) -> list[Block]:
    """Every line of the files in exactly one block, in order; blank lines too, for numbers to agree.

    Raises SettingsError when a file cannot be read.
    """
    found: list[Block] = []
    for number, path in enumerate(files):
        place, first, start, position = 0, 1, 0, 0
        count = 0
        try:
            with path.open("rb") as file:
                for line in file:
                    position += len(line)
                    count += 1
                    if count == lines_per_block:
                        found.append(_block(path, number, place, start, position, first, count))
                        place, first, start, count = place + 1, first + count, position, 0
        except OSError as error:
            raise SettingsError(f"{path} cannot be read: {error.strerror}") from error
        if count:
            found.append(_block(path, number, place, start, position, first, count))
    return found


def input_files(path: Path) -> list[Path]:
    """The file, or the folder's JSON-lines files by name; raises SettingsError when there are none."""
    if path.is_file():
        return [path]
    files = sorted(path.glob("*.jsonl"))
    if not files:
        raise SettingsError(f"{path} is neither a file of JSON lines nor a folder with *.jsonl")
    return files


def identity(files: Sequence[Path]) -> dict[str, str]:
    """SHA-256 of each file by name: what a resumed run holds its input against."""
    found: dict[str, str] = {}
    for path in files:
        with path.open("rb") as file:
            found[path.name] = hashlib.file_digest(file, "sha256").hexdigest()
    return found


def _block(
    path: Path, file: int, place: int, start: int, end: int, first_line: int, lines: int
) -> Block:
    part = PART.format(file=file, block=place)
    return Block(str(path.absolute()), start, end, first_line, lines, part)
