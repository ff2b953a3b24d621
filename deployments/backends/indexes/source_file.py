"""Files that an index is built from: read as a stream, unzipped on the way, and measured."""

import bz2
import gzip
import io
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from crag_core.errors import SettingsError

_BLOCK_BYTES = 65_536
_UNZIPPED: dict[str, Any] = {".bz2": bz2.open, ".gz": gzip.open}


@dataclass(slots=True)
class Meter:
    """Bytes read of all files together, as they lie on the disk."""

    total: int = 0
    done: int = 0


def read_lines(file: Path, meter: Meter) -> Iterator[bytes]:
    """The lines of a file, split at LF alone; raises SettingsError when it cannot be read to its end."""
    with _opened(file, meter) as stream:
        yield from stream


def read_blocks(file: Path, meter: Meter) -> Iterator[bytes]:
    """The bytes of a file in small blocks; raises SettingsError when it cannot be read to its end."""
    with _opened(file, meter) as stream:
        while block := stream.read(_BLOCK_BYTES):
            yield block


@contextmanager
def _opened(file: Path, meter: Meter) -> Iterator[IO[bytes]]:
    """The file's content, unzipped by the last part of its name; bzip2 of many streams too."""
    try:
        with _MeteredFile(file, meter) as raw, io.BufferedReader(raw) as content:
            unzipped = _UNZIPPED.get(file.suffix)
            yield unzipped(content) if unzipped else content
    except (OSError, EOFError, zlib.error) as error:
        raise SettingsError(f"{file} cannot be read to its end: {error}") from error


class _MeteredFile(io.FileIO):
    """Writes down every byte that is read of it."""

    def __init__(self, file: Path, meter: Meter) -> None:
        super().__init__(file)
        self._meter = meter

    def readinto(self, buffer: Any) -> int | None:
        count = super().readinto(buffer)
        self._meter.done += count or 0
        return count
