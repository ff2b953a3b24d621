"""References of a sub-question to earlier answers: found, made uniform, and replaced.

Models write them as `#1`, `[answer to Q0]`, `[the director]` or by a word such as "this director".
"""

import re
from collections.abc import Mapping

_NUMBERED = re.compile(
    r"#\s?(?P<hash>\d{1,3})\b"
    r"|[\[{<](?=[^\[\]{}<>]{0,60}?\d)[^\[\]{}<>\d]{0,60}(?P<bracket>\d{1,3})[^\[\]{}<>\d]{0,40}[\]}>]"
    r"|(?i:\b(?:the )?answers? (?:to|of|from) (?:sub-?question|question|q|step)?\s?#?"
    r"(?P<words>\d{1,3})\b)"
)
_BRACKETED = re.compile(r"[\[{<]([^\[\]{}<>]{1,80})[\]}>]")
_PLACE = re.compile(r"#(\d{1,3})\b")
_KINDS = (
    "person|people|man|woman|film|movie|book|novel|song|album|band|group|team|club|company|school|"
    "university|college|city|town|village|county|state|country|place|location|region|river|director|"
    "author|writer|actor|actress|singer|performer|composer|producer|character|series|show|game|"
    "award|event|year|date|organization|organisation|institution|award|work|play|party|spouse|"
    "husband|wife|father|mother|son|daughter|child|president|king|queen|founder|owner|creator"
)
_ANAPHOR = re.compile(
    rf"\b(?:[Tt]hat|[Tt]he same) (?:{_KINDS})\b(?P<demonstrative_s>'s)?"
    r"|\b(?:[Tt]h(?:is|ese|ose)|the aforementioned|the said) \w+\b(?P<this_s>'s)?"
    r"|\b(?P<possessive>his|its|their|her(?= \w))\b"
    r"|\b(?:he|she|it|they|him|her|them)\b"
)


def numbers(text: str) -> list[int]:
    """The numbers that references in the text give, in order."""
    return [_number(match) for match in _NUMBERED.finditer(text)]


def renumbered(text: str, places: Mapping[int, int]) -> str:
    """The text with each numbered reference as `#k`, by a mapping from its number to a position.

    References that the mapping lacks lose their mark and become plain words.
    """

    def replace(match: re.Match[str]) -> str:
        place = places.get(_number(match))
        return match[0].strip("#[]{}<>") if place is None else f"#{place + 1}"

    return _NUMBERED.sub(replace, text)


def bracketed(text: str) -> list[str]:
    """What stands in brackets without a number."""
    return [match[1] for match in _BRACKETED.finditer(text) if not re.search(r"\d", match[1])]


def with_bracket_as(text: str, words: str, place: int) -> str:
    """The text with one bracket, known by its words, as a reference to a position."""
    return re.sub(rf"[\[{{<]{re.escape(words)}[\]}}>]", f"#{place + 1}", text, count=1)


def has_anaphor(text: str) -> bool:
    """Whether the text points back by a word: "this film", "his", "that person"."""
    return _ANAPHOR.search(text) is not None


def with_places_filled(text: str, answers: Mapping[int, str]) -> tuple[str, set[int]]:
    """The text with every `#k` replaced by its answer, and the positions that were replaced.

    >>> with_places_filled("Who is the mother of #1?", {0: "Mansoor Khan"})
    ('Who is the mother of Mansoor Khan?', {0})
    """
    filled: set[int] = set()

    def replace(match: re.Match[str]) -> str:
        place = int(match[1]) - 1
        if place not in answers:
            return match[0]
        filled.add(place)
        return answers[place]

    return _PLACE.sub(replace, text), filled


def with_anaphor_filled(text: str, answer: str) -> str:
    """The text with its first word that points back replaced, or the answer set before it.

    >>> with_anaphor_filled("When was his father born?", "Mansoor Khan")
    "When was Mansoor Khan's father born?"
    >>> with_anaphor_filled("What award?", "Mansoor Khan")
    'Mansoor Khan: What award?'
    """
    match = _ANAPHOR.search(text)
    if match is None:
        return f"{answer}: {text}"
    owns = match["possessive"] or match["demonstrative_s"] or match["this_s"]
    return f"{text[: match.start()]}{answer}{chr(39) + 's' if owns else ''}{text[match.end() :]}"


def described(question: str) -> str:
    """A question as the phrase for what it asks after, to stand in for an answer nobody found.

    >>> described("Who is the director of Jaws?")
    'the director of Jaws'
    """
    phrase = _ASKING.sub("", question.strip()).rstrip("?!. ").strip()
    return phrase or question.strip().rstrip("?")


_ASKING = re.compile(
    r"^(?:who|what|which|where|when)(?:'s| is| was| are| were)\s+|^(?:who|what|which|where|when)\s+",
    re.IGNORECASE,
)


def _number(match: re.Match[str]) -> int:
    return int(match["hash"] or match["bracket"] or match["words"])
