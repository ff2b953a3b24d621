"""Ways to write a text so that a person does not see it, or sees another, and a model may still read it.

Each takes a text character by character, so that what hides a sentence hides each word of it alike.
"""

_TAGS = 0xE0000
_FULL_WIDTH = 0xFEE0
_ZERO_WIDTH_SPACE = "\u200b"
_SELECTORS = 0xE0100 - 16
"""Bytes from 16 on have their variation selectors in a row; no text here has a lower one."""


def plain(text: str) -> str:
    """As it is."""
    return text


def as_tags(text: str) -> str:
    """Tag characters, which show nothing: an invisible twin of every ASCII character."""
    return "".join(chr(_TAGS + ord(char)) if char.isascii() else char for char in text)


def as_selectors(text: str) -> str:
    """Variation selectors, a byte each, which show nothing."""
    return "".join(chr(_SELECTORS + byte) for byte in text.encode())


def with_zero_width(text: str) -> str:
    """A space of no width behind every character: seen as ever, and found by no search for a word."""
    return "".join(char + _ZERO_WIDTH_SPACE for char in text)


def as_full_width(text: str) -> str:
    """The wide forms of ASCII: read by a person, and found by no search for a word."""
    return "".join(chr(_FULL_WIDTH + ord(char)) if "!" <= char <= "~" else char for char in text)
