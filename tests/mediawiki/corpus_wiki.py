"""A MediaWiki filled with a corpus of Wikipedia paragraphs, served until Ctrl-C.

usage: python -m tests.mediawiki.corpus_wiki --data DIR [--pages N]

DIR holds `wiki_corpus.jsonl.gz`: lines with `title` and `text`, one paragraph each. A title's first
paragraph becomes the page's lead. Where several titles differ only in what stands in parentheses and
none goes without, a disambiguation page lists them, as on Wikipedia.
"""

import gzip
import json
import re
import tempfile
import unicodedata
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer
from aiohttp import web

from benchmarks.server_process import free_port
from tests.mediawiki.front import front
from tests.mediawiki.local_wiki import running_wiki

_CACHE = Path(__file__).resolve().parents[2] / ".cache" / "mediawiki"
_API = "/w/api.php"
_QUALIFIED = re.compile(r"(.+?) \([^()]+\)")
_LEADING_MARKUP = re.compile(r"^[\s*#:;=!|{}-]+", re.MULTILINE)
_MARKUP = re.compile(r"\[\[|\]\]|\{\{|\}\}|\{\||'{2,}|[<>]|__|~~~+")
_WORDS_OF_AN_ENTRY = 12


def corpus_pages(lines: Iterator[str]) -> Iterator[Mapping[str, Any]]:
    """Rows of a snapshot, made of a corpus' paragraphs: the pages, then disambiguation pages."""
    paragraphs: dict[str, list[str]] = defaultdict(list)
    for line in lines:
        row = json.loads(line)
        title = unicodedata.normalize("NFC", row["title"])  # as a wiki has it, or its page is lost
        paragraphs[title[0].upper() + title[1:]].append(_plain(row["text"]))
    for title, (lead, *more) in paragraphs.items():
        rest = ["== Article ==", *more] if more else []
        yield _page(title, "\n\n".join([lead, *rest]))
    qualified: dict[str, list[str]] = defaultdict(list)
    for title in paragraphs:
        if match := _QUALIFIED.fullmatch(title):
            qualified[match[1]].append(title)
    for name, titles in qualified.items():
        if len(titles) > 1 and name not in paragraphs:
            entries = [
                f"{title}, {' '.join(paragraphs[title][0].split()[:_WORDS_OF_AN_ENTRY])}"
                for title in titles
            ]
            yield _page(name, "\n".join([f"{name} may refer to:", *entries]), disambiguation=True)


def _page(title: str, text: str, *, disambiguation: bool = False) -> Mapping[str, Any]:
    return {"title": title, "text": text, "redirects": (), "disambiguation": disambiguation}


def _plain(text: str) -> str:
    """A paragraph on one line, in which nothing is wikitext."""
    return _LEADING_MARKUP.sub("", _MARKUP.sub(" ", " ".join(text.split()))) or "-"


def _chosen(pages: Iterator[Mapping[str, Any]], count: int | None) -> Sequence[Mapping[str, Any]]:
    chosen = list(pages)[:count]
    titles = {page["title"] for page in chosen}
    kept = [page for page in chosen if not page["disambiguation"] or _entries(page) <= titles]
    return kept


def _entries(page: Mapping[str, Any]) -> set[str]:
    name = page["title"]
    lines = page["text"].splitlines()[1:]
    return {line[: line.index(")", len(name)) + 1] for line in lines}


def main(
    data: Annotated[Path, typer.Option(help="Folder with wiki_corpus.jsonl.gz.")],
    pages: Annotated[int | None, typer.Option(help="So many pages; all when left out.", min=1)] = None,
) -> None:
    """Fill a wiki, or take the one filled before, and serve it."""
    with gzip.open(data / "wiki_corpus.jsonl.gz", "rt", encoding="utf-8", newline="\n") as lines:
        rows = _chosen(corpus_pages(line for line in lines if line.strip()), pages)
    with tempfile.TemporaryDirectory() as folder:
        snapshot = Path(folder) / "snapshot.jsonl"
        snapshot.write_text("".join(f"{json.dumps(row)}\n" for row in rows), encoding="utf-8")
        typer.echo(f"{len(rows)} pages; a wiki that is not in {_CACHE} yet takes minutes to fill")
        with running_wiki(Path(folder) / "wiki", snapshot, _CACHE) as wiki:
            origin, port = wiki.api_url.removesuffix(_API), free_port()
            typer.echo(f"serving http://127.0.0.1:{port}{_API}")
            web.run_app(front(origin), host="127.0.0.1", port=port, print=None, access_log=None)


if __name__ == "__main__":
    typer.run(main)
