"""MediaWiki XML dumps for tests: hand-written pages, and as many made-up ones as asked for."""

import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO
from xml.sax.saxutils import escape, quoteattr

HEAD = """<mediawiki xmlns="http://www.mediawiki.org/xml/export-0.11/" version="0.11" xml:lang="de">
  <siteinfo>
    <sitename>Wiki</sitename>
    <base>https://de.wiki.example/wiki/Hauptseite</base>
    <case>first-letter</case>
    <namespaces>
      <namespace key="-2" case="first-letter">Medium</namespace>
      <namespace key="0" case="first-letter" />
      <namespace key="6" case="first-letter">Datei</namespace>
      <namespace key="14" case="first-letter">Kategorie</namespace>
    </namespaces>
  </siteinfo>
"""
TAIL = "</mediawiki>\n"


@dataclass(frozen=True)
class Page:
    """A page of a dump."""

    title: str
    text: str = "Some text."
    namespace: int | None = 0
    redirect: str | None = None
    model: str = "wikitext"
    revision: int = 7

    def xml(self) -> str:
        redirect = "" if self.redirect is None else f"<redirect title={quoteattr(self.redirect)} />"
        namespace = "" if self.namespace is None else f"<ns>{self.namespace}</ns>"
        return (
            f"<page><title>{escape(self.title)}</title>{namespace}<id>1</id>{redirect}"
            f"<revision><id>{self.revision}</id><parentid>3</parentid>"
            "<timestamp>2026-01-01T00:00:00Z</timestamp>"
            "<contributor><username>A</username><id>5</id></contributor>"
            f"<comment>made</comment><origin>{self.revision}</origin><model>{self.model}</model>"
            f'<format>text/x-wiki</format><text bytes="1" xml:space="preserve">{escape(self.text)}'
            "</text><sha1>x</sha1></revision></page>\n"
        )


def dump(pages: Iterable[Page]) -> bytes:
    """A whole dump."""
    return "".join([HEAD, *(page.xml() for page in pages), TAIL]).encode()


def write_dump(path: Path, *pages: Page) -> Path:
    """A file of a dump, not zipped."""
    path.write_bytes(dump(pages))
    return path


def made_up_pages(count: int, sections: int = 1) -> Iterator[Page]:
    """Pages as an encyclopedia has them: an infobox, a lead with references, sections, redirects."""
    for number in range(count):
        name = f"Place {number}"
        if number % 4 == 3:
            target = f"Place {number - number % 4}"
            yield Page(name, f"#REDIRECT [[{target}]]", redirect=target)
            continue
        sentences = [
            f"The [[Place {number + step}|next place]] is {step} km away.<ref>{{{{cite web|url=http://"
            f"a.example/{step}|title=Map {step}}}}}</ref> It was ''first'' named in {1000 + step}. "
            for step in range(12)
        ]
        section = "".join(sentences)
        infobox = "".join(
            f"| field{row} = [[Place {row}]] and {{{{convert|{row}|km}}}}\n" for row in range(12)
        )
        history = f"== History ==\n{section}\n\n" * sections
        yield Page(
            name,
            f"{{{{Infobox place\n{infobox}}}}}\n'''{name}''' is a [[town]] of {number} people."
            f"<ref name=census /> {''.join(sentences[:4])}\n\n{history}"
            "== See also ==\n* [[Town]]\n[[Category:Places]]\n",
            revision=number + 1,
        )


def write_made_up_dump(stream: IO[bytes], count: int, sections: int) -> None:
    """Write a dump of made-up pages without holding it in memory."""
    stream.write(HEAD.encode())
    for page in made_up_pages(count, sections):
        stream.write(page.xml().encode())
    stream.write(TAIL.encode())


if __name__ == "__main__":  # python -m tests.deployments.dump_files FILE PAGES SECTIONS
    with Path(sys.argv[1]).open("wb") as file:
        write_made_up_dump(file, int(sys.argv[2]), int(sys.argv[3]))
