"""Wikitext to sentences: what a reader sees stays, everything else goes."""

import pytest

from deployments.backends.dumps.wikitext import (
    MAX_PAGE_CHARACTERS,
    is_disambiguation,
    lead_text,
    page_text,
    redirect_target,
)

HIDDEN = frozenset({"file", "image", "category", "datei"})


@pytest.mark.parametrize(
    ("wikitext", "text"),
    [
        ("'''Kale''' is a ''[[leaf vegetable|leafy]]'' [[vegetable]].", "Kale is a leafy vegetable."),
        ("{{Infobox\n| a = {{lang|fr|b}}\n}}\n'''A''' is b.", "A is b."),
        ("{| class=x\n! A\n|-\n| 1 || [[b]]\n|}\nText.", "Text."),
        ("A.<ref>{{cite|x=1}}</ref><ref name=b /> B.<!-- no --> C.", "A. B. C."),
        ("[[File:A.jpg|thumb|A [[caption]] of it]]\n[[Datei:B.jpg]] Text.", "Text."),
        ("Text.\n\n[[Category:Towns]]\n[[fr:Ville]]\n[[zh-yue:X]]", "Text."),
        ("See [[:Category:Towns]] and [[wikt:town]].", "See Category:Towns and wikt:town."),
        ("[http://a.example b c] [http://a.example] http://c.example", "b c http://c.example"),
        ("&nbsp;A &amp; B &lt;b&gt; &#8211; C&mdash;D", "A & B <b> – C—D"),
        ("<nowiki>[[not a link]] '''</nowiki> x", "[[not a link]] x"),
        ("H<sub>2</sub>O, m<sup>2</sup>, <math>x^2</math> a<br/>b", "H2O, m2, a b"),
        ("<syntaxhighlight lang=x>code</syntaxhighlight><gallery>\nA.jpg|x\n</gallery>Text", "Text"),
        ("A ({{IPA|x}}) b ({{lang-de|y}}; born 5 May) c ({{x}}, {{y}}).", "A b (born 5 May) c."),
        ("{{convert|3800|m|ft}} deep, {{nowrap|a b}}, {{circa|1500}}", "3800 m deep, a b, c. 1500"),
        ("L''''amour'' and '''''both''''' and rock 'n' roll", "L'amour and both and rock 'n' roll"),
        ("one\ntwo\n\nthree\n\n\nfour", "one two\n\nthree\n\nfour"),
        (
            "Of these:\n* one\n** [[two]]\n# three\n; a\n: b\nAfter.",
            "Of these:\none\ntwo\nthree\na\nb\n\nAfter.",
        ),
        ("__NOTOC__\nThe __init__ method.__ОГЛ__", "The __init__ method."),
        ("{{a|b=\n== no heading ==\n}}Lead.\n\n== Heading ==\nBody.", "Lead."),
        ("<!--\n== no heading ==\n-->Lead.\n=== Heading ===\nBody.", "Lead."),
        ("== First ==\nIt has no lead.\n== Second ==\nMore.", "It has no lead."),
        ("{{Infobox}}\n== First ==\n{{Main}}\n=== Deep ===\nHere.", "Here."),
        ("Lead.{{never closed\n\n== Heading ==\nBody.", "Lead.{{never closed"),
        ("x = 1 == 2 and y", "x = 1 == 2 and y"),
        ("{{unclosed and [[open", "{{unclosed and [[open"),
        ("東京は[[日本]]の首都。🍕 \u202bעברית\u202c", "東京は日本の首都。🍕 \u202bעברית\u202c"),
        ("{{Infobox}}", ""),
        ("{|\n| only\n|}", ""),
        ("", ""),
    ],
)
def test_lead_is_what_a_reader_sees_before_the_first_heading(wikitext: str, text: str) -> None:
    assert lead_text(wikitext, HIDDEN) == text


def test_page_is_all_its_paragraphs_without_headings() -> None:
    wikitext = "Lead.\n\n== A ==\nFirst.\n=== B ===\n* item\n\n== References ==\n<references/>"
    assert page_text(wikitext, HIDDEN) == "Lead.\n\nFirst.\n\nitem"


@pytest.mark.parametrize("paragraph", ["word " * 100 + "\n\n", "word "])
def test_page_without_end_is_cut(paragraph: str) -> None:
    text = page_text(paragraph * (2 * MAX_PAGE_CHARACTERS // len(paragraph)), HIDDEN)
    assert MAX_PAGE_CHARACTERS - 1_000 < len(text) <= MAX_PAGE_CHARACTERS
    assert text.endswith("word")


@pytest.mark.parametrize(
    "wikitext",
    [
        "{{disambiguation}}",
        "{{Disambig}}",
        "{{ disambiguation |geo}}",
        "{{Template:Dab}}",
        "{{Human name disambiguation}}",
        "{{school_disambiguation}}",
        "{{Disambiguation page}}",
        "__DISAMBIG__",
        "{{Begriffsklärung}}",
        "{{Homonymie}}",
        "{{曖昧さ回避}}",
    ],
)
def test_page_that_tells_names_apart_is_flagged(wikitext: str) -> None:
    assert is_disambiguation(f"'''A''' may be:\n* [[B]]\n{wikitext}\n")


@pytest.mark.parametrize(
    "wikitext",
    [
        "[[A]]{{disambiguation needed|date=May}}",
        "{{about|a|b|A (disambiguation)}}",
        "{{other uses}}",
        "<!-- {{disambiguation}} -->",
        "On word sense disambiguation.",
        "{{R from incomplete disambiguation of|x}}",
    ],
)
def test_page_that_only_mentions_it_is_not(wikitext: str) -> None:
    assert not is_disambiguation(wikitext)


@pytest.mark.parametrize(
    ("wikitext", "target"),
    [
        ("#REDIRECT [[A b]]", "A b"),
        ("\n#redirect:[[A#Part|x]]\n{{R}}", "A"),
        ("# [[A]]", None),
        ("Text #REDIRECT [[A]]", None),
    ],
)
def test_redirect_is_known_by_its_wikitext(wikitext: str, target: str | None) -> None:
    assert redirect_target(wikitext) == target
