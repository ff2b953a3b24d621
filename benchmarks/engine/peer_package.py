"""Peers that are packages: installed beside the project's environment, never into it."""

import subprocess
import sys
from pathlib import Path

_FOLDER = Path(".cache/peers")
_TIMEOUT_S = 300


def peer_package(name: str, *requirements: str) -> Path | None:
    """The folder of a peer's own packages, to be put on the path; None when pip cannot fill it.

    What they need beside these comes from the project's environment, so that every contestant runs on
    the same torch.
    """
    folder = _FOLDER / "-".join([name, *(r.partition("==")[2] for r in requirements)])
    if folder.exists():
        return folder
    aside = folder.with_name(f"{folder.name}.partial")
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--upgrade"]
    try:
        subprocess.run(
            [*pip, "--target", str(aside), *requirements],
            check=True,
            capture_output=True,
            timeout=_TIMEOUT_S,
        )
    except (subprocess.SubprocessError, OSError):
        return None
    aside.rename(folder)
    return folder
