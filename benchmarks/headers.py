"""Headers of requests from a file, such as a key: a command line is seen by every user."""

import re
from pathlib import Path

_HEADER = re.compile(r"([A-Za-z0-9-]{1,100}):[ \t]*([\x20-\x7e]{0,8000})")
_MAX_HEADERS = 32


def read_headers(path: Path | None) -> list[tuple[str, str]]:
    """The headers of a file; a file, for what stands in a command line is seen by every user."""
    if path is None:
        return []
    headers = []
    for number, line in enumerate(path.read_text("utf-8").splitlines(), start=1):
        if not line.strip():
            continue
        match = _HEADER.fullmatch(line.strip())
        if match is None:
            raise ValueError(f"{path}:{number} is no header of the form `Name: value`")
        headers.append((match[1], match[2]))
    if len(headers) > _MAX_HEADERS:
        raise ValueError(f"{path} holds {len(headers)} headers, and {_MAX_HEADERS} are allowed")
    return headers
