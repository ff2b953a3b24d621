"""The pages that a corpus of paragraphs becomes; no wiki is needed for it."""

import json

from tests.mediawiki.corpus_wiki import corpus_pages


def test_paragraphs_become_pages_and_shared_names_a_disambiguation_page() -> None:
    rows = [
        ("ghost (1990 film)", "Ghost is a film."),
        ("Ghost (band)", "Ghost is a band."),
        ("ghost (1990 film)", "It has [[links]] and {{templates}}."),
        ("Beyonce\u0301", "* A singer."),
        ("Beyonce\u0301 (album)", "An album."),
    ]
    lines = (json.dumps({"title": title, "text": text}) for title, text in rows)
    pages = {page["title"]: page for page in corpus_pages(lines)}
    assert list(pages) == [
        "Ghost (1990 film)", "Ghost (band)", "Beyoncé", "Beyoncé (album)", "Ghost",
    ]  # fmt: skip
    film = pages["Ghost (1990 film)"]["text"]
    assert film == "Ghost is a film.\n\n== Article ==\n\nIt has  links  and  templates ."
    assert pages["Beyoncé"]["text"] == "A singer."
    assert pages["Ghost"]["disambiguation"]
    assert pages["Ghost"]["text"].splitlines() == [
        "Ghost may refer to:",
        "Ghost (1990 film), Ghost is a film.",
        "Ghost (band), Ghost is a band.",
    ]
