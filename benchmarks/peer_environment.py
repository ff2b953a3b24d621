"""Peers that are packages: each in an environment of its own, beside the project's and never in it."""

import subprocess
import sys
import sysconfig
from pathlib import Path

_FOLDER = Path(".cache/peers")
_TIMEOUT_S = 600


class PeerNotInstalled(RuntimeError):
    """pip could not install a peer: no registry, or no such release."""


def peer_python(name: str, *requirements: str) -> str:
    """The interpreter of an environment that holds a peer's own packages, installed once.

    What they need beside these comes from the project's environment, so that every contestant runs on
    the same PyTorch. Raises PeerNotInstalled.
    """
    pinned = [requirement.partition("==")[2] for requirement in requirements]
    folder = _FOLDER / "-".join([name, *pinned])
    if not folder.exists():
        aside = folder.with_name(f"{folder.name}.partial")
        _fill(aside, requirements)
        aside.rename(folder)
    return str((folder / "bin" / "python").absolute())


def _fill(folder: Path, requirements: tuple[str, ...]) -> None:
    _run("make an environment", [sys.executable, "-m", "venv", "--clear", "--without-pip", str(folder)])
    python = folder / "bin" / "python"
    packages = Path(_run("look at it", [str(python), "-c", _WHERE]).strip())
    site = sysconfig.get_path("purelib")
    (packages / "project.pth").write_text(f"import site; site.addsitedir({site!r})\n", "utf-8")
    pip = [sys.executable, "-m", "pip", "--python", str(python), "install", "--quiet", "--no-deps"]
    _run(f"install {' '.join(requirements)}", [*pip, "--ignore-installed", *requirements])


_WHERE = "import sysconfig; print(sysconfig.get_path('purelib'))"


def _run(what: str, command: list[str]) -> str:
    try:
        done = subprocess.run(command, check=True, capture_output=True, text=True, timeout=_TIMEOUT_S)
    except subprocess.CalledProcessError as error:
        raise PeerNotInstalled(f"could not {what}: {error.stderr.strip()[-500:]}") from error
    except (subprocess.TimeoutExpired, OSError) as error:
        raise PeerNotInstalled(f"could not {what}: {error}") from error
    return done.stdout
