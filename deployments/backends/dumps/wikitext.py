"""Wikitext to plain text: what a reader of the page sees as its sentences, and nothing else."""

import re
from collections.abc import Iterator

import mwparserfromhell
from mwparserfromhell.nodes import ExternalLink, HTMLEntity, Tag, Template, Text, Wikilink
from mwparserfromhell.wikicode import Wikicode

MAX_PAGE_CHARACTERS = 100_000
"""Longest text of a whole page, which is also the longest document that a request may bring."""

_COMMENT = re.compile(r"<!--.*?(?:-->|\Z)", re.DOTALL)
_HEADING = re.compile(r"^(={1,6})[^=\n].*?\1[ \t]*$", re.MULTILINE)
_REDIRECT = re.compile(r"\s*#REDIRECT\s*:?\s*\[\[:?([^\]|#\n]+)", re.IGNORECASE)
_DISAMBIGUATION = re.compile(
    r"__DISAMBIG__"
    r"|\{\{\s*(?:template:)?(?:"
    r"disambig(?:uation)?(?:[ _-](?:cleanup|page))?|dab|hndis|geodis|[^{}|<>\[\]\n]+[ _-]disambiguation"
    r"|begriffsklärung|homonymie|desambiguación|desambigua[çc]ão|desambig|disambigua|dp"
    r"|doorverwijspagina|ujednoznacznienie|неоднозначность|曖昧さ回避|aimai|消歧义|消歧義"
    r")\s*(?:\||\}\})",
    re.IGNORECASE,
)
_INTERLANGUAGE = re.compile(r"[a-z]{2,3}(?:-[a-z]+)*\s*:[^:]")
_BEHAVIOUR_SWITCH = re.compile(r"__[^\W\d_a-z]{3,}__")
_QUOTES = re.compile(r"'{2,}")
_EMPTY_PARENTHESES = re.compile(r"\s*[(（][\s,;:]*[)）]")
_OPENED_BY_A_SEPARATOR = re.compile(r"\([\s,;:]+")
_BLANKS = re.compile(r"[^\S\n]+")

_ITEM = "\x00"
"""Begins an item of a list while text is put together; XML can't hold it, so no page has it."""

_HIDDEN_TAGS = frozenset(
    {
        *("table", "ref", "references", "div", "pre", "source", "syntaxhighlight", "style", "script"),
        *("gallery", "imagemap", "timeline", "graph", "mapframe", "maplink", "indicator", "inputbox"),
        *("math", "chem", "ce", "score", "hiero", "templatedata", "templatestyles", "categorytree"),
        "section",
    }
)
"""Elements that MediaWiki's own plain extracts leave out, or whose content is no text."""

_LITERAL_TAGS = frozenset({"nowiki"})
_LIST_TAGS = frozenset({"li", "dd", "dt"})
_BLANK_TAGS = {"br": " ", "hr": "\n\n", "p": "\n\n"}

_INLINE_TEMPLATES = {
    "nowrap": "{1}",
    "nobr": "{1}",
    "lang": "{2}",
    "transliteration": "{2}",
    "convert": "{1} {2}",
    "cvt": "{1} {2}",
    "circa": "c. {1}",
    "c.": "c. {1}",
    "snd": " – ",
    "spnd": " – ",
    "ndash": "–",
    "mdash": "—",
    "nbsp": " ",
    "'": "'",
    "'s": "'s",
}
"""Templates of Wikipedia that stand for words of a sentence, and the parameters that are its words."""

_PARAMETER = re.compile(r"\{(\d)\}")


def redirect_target(wikitext: str) -> str | None:
    """The page that a redirect leads to, None for any other page.

    >>> redirect_target("#REDIRECT [[RMS Titanic#Sinking]] {{R from move}}")
    'RMS Titanic'
    """
    found = _REDIRECT.match(wikitext)
    return found[1].strip() if found else None


def is_disambiguation(wikitext: str) -> bool:
    """Whether a page says by magic word or template that it only tells pages of one name apart.

    >>> is_disambiguation("'''Mercury''' may refer to: ... {{Human name disambiguation}}")
    True
    >>> is_disambiguation("A planet, see [[Mercury]]{{disambiguation needed|date=May 2020}}")
    False
    """
    return _DISAMBIGUATION.search(_COMMENT.sub("", wikitext)) is not None


def lead_text(wikitext: str, hidden_prefixes: frozenset[str]) -> str:
    """The plain text before the first heading, or of the first section that has any.

    >>> lead_text("{{Infobox}} '''Kale''' is a [[leaf vegetable]].<ref>X</ref>", frozenset())
    'Kale is a leaf vegetable.'
    """
    return next(_section_texts(wikitext, hidden_prefixes), "")


def page_text(wikitext: str, hidden_prefixes: frozenset[str]) -> str:
    """The plain text of all sections without their headings, cut after a paragraph when very long."""
    text = "\n\n".join(_section_texts(wikitext, hidden_prefixes))
    if len(text) > MAX_PAGE_CHARACTERS:
        cut = text[:MAX_PAGE_CHARACTERS]
        text = cut.rpartition("\n")[0] or cut.rpartition(" ")[0] or cut
    return text.rstrip()


def _section_texts(wikitext: str, hidden_prefixes: frozenset[str]) -> Iterator[str]:
    """The text of every section that has some; a section is parsed when it is asked for."""
    for section in _sections(_COMMENT.sub("", wikitext)):
        code = mwparserfromhell.parse(section, skip_style_tags=True)
        if text := _laid_out("".join(_plain(code, hidden_prefixes))):
            yield text


def _sections(wikitext: str) -> Iterator[str]:
    """The wikitext between headings; a heading inside a template is none, if all templates end."""
    has_open_template = wikitext.count("{{") > wikitext.count("}}")
    begin = 0
    for heading in _HEADING.finditer(wikitext):
        section = wikitext[begin : heading.start()]
        if has_open_template or section.count("{{") <= section.count("}}"):
            yield section
            begin = heading.end()
    yield wikitext[begin:]


def _plain(code: Wikicode, hidden_prefixes: frozenset[str]) -> Iterator[str]:
    for node in code.nodes:
        match node:
            case Text():
                yield node.value
            case HTMLEntity():
                yield node.normalize()
            case Wikilink():
                if not _is_hidden_link(str(node.title), hidden_prefixes):
                    shown = "".join(_plain(node.text or node.title, hidden_prefixes))
                    yield shown if node.text else shown.removeprefix(":")
            case ExternalLink():
                if node.title is not None or not node.brackets:
                    yield from _plain(node.title or node.url, hidden_prefixes)
            case Template():
                yield from _words_of(node, hidden_prefixes)
            case Tag():
                yield from _tag(node, hidden_prefixes)


def _tag(node: Tag, hidden_prefixes: frozenset[str]) -> Iterator[str]:
    name = str(node.tag).strip().casefold()
    if name in _LIST_TAGS and node.wiki_markup:
        yield _ITEM
        return
    yield _BLANK_TAGS.get(name, "")
    if name in _LITERAL_TAGS:
        yield str(node.contents)
    elif name not in _HIDDEN_TAGS and node.contents:
        yield from _plain(node.contents, hidden_prefixes)


def _is_hidden_link(target: str, hidden_prefixes: frozenset[str]) -> bool:
    target = target.strip().casefold()
    prefix, colon, _ = target.partition(":")
    return bool(colon and (prefix.strip() in hidden_prefixes or _INTERLANGUAGE.match(target)))


def _words_of(template: Template, hidden_prefixes: frozenset[str]) -> Iterator[str]:
    words = _INLINE_TEMPLATES.get(str(template.name).strip().casefold(), "")
    for index, part in enumerate(_PARAMETER.split(words)):
        if index % 2 == 0:
            yield part
        elif template.has(part):
            yield from _plain(template.get(part).value, hidden_prefixes)


def _laid_out(text: str) -> str:
    """Paragraphs apart by a blank line, items of a list a line each, blanks single."""
    text = _QUOTES.sub(_apostrophes, _BEHAVIOUR_SWITCH.sub("", text))
    text = _EMPTY_PARENTHESES.sub("", text)
    text = _OPENED_BY_A_SEPARATOR.sub("(", text)
    blocks: list[str] = []
    joint = ""
    for line in text.split("\n"):
        words = _BLANKS.sub(" ", line.replace(_ITEM, " ")).strip()
        is_item = line.startswith(_ITEM)
        if words and blocks and (joint == " " or is_item):
            blocks[-1] += ("\n" if is_item else joint) + words
        elif words:
            blocks.append(words)
        # a line goes on in the next one, an item of a list and a blank line do not
        joint = " " if words and not is_item else ""
    return "\n\n".join(blocks)


def _apostrophes(quotes: re.Match[str]) -> str:
    """What is left of a run of apostrophes: 2, 3 and 5 are markup, a fourth and all after 5 are text."""
    count = len(quotes[0])
    return "'" * (count - 3 if count == 4 else max(count - 5, 0))
