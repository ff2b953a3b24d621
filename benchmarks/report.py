"""What reports are made of: sections with a table each, Markdown, and files."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Section:
    """A table with its title; `note` says how to read it."""

    title: str
    header: Sequence[str]
    rows: Sequence[Sequence[str]]
    note: str = ""


def table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A Markdown table."""
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def parts_of(sections: Iterable[Section]) -> list[str]:
    """The parts of a Markdown page: each section's title, table and note."""
    parts = []
    for section in sections:
        parts += [f"### {section.title}", table(section.header, section.rows)]
        parts += [section.note] if section.note else []
    return parts


def write_files(folder: Path, texts: Mapping[str, str]) -> list[Path]:
    """Texts by file name into a folder, each file whole or not there. Raises OSError."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in texts.items():
        aside = folder / f"{name}.partial"
        aside.write_text(text, "utf-8")
        aside.replace(folder / name)
    return [folder / name for name in texts]
