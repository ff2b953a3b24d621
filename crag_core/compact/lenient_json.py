"""JSON out of a language model's text: strict where it is JSON, repaired where it is not."""

import json
import re

from json_repair import repair_json

_MAX_CHARACTERS = 30_000
_FENCED = re.compile(r"```(?:json)?\s*(.*?)```", re.DOTALL | re.IGNORECASE)
_OPENING = re.compile(r"[\[{]")
_MAX_DEPTH = 40
_REPAIR_FAILURES = (ValueError, RecursionError, LookupError, TypeError, AttributeError, AssertionError)
"""What the repair itself has been seen to raise on broken input, or may."""


def read_json(text: str) -> object | None:
    """The object or list that a completion holds, among prose, fenced, cut short or badly quoted.

    `None` where there is none. Never raises, and reads no more than the first 30,000 characters.

    >>> read_json('Here you are: ```json [{"q": "Who?",}] ```')
    [{'q': 'Who?'}]
    >>> read_json('[{"q": "Who wrote it?", "ref": "No')
    [{'q': 'Who wrote it?', 'ref': 'No'}]
    """
    text = text[:_MAX_CHARACTERS].encode("utf-8", "replace").decode("utf-8")
    fenced = [match[1] for match in _FENCED.finditer(text)]
    for candidate in (text, *fenced):
        value = _strict(candidate)
        if isinstance(value, dict | list):
            return value
    for candidate in (*fenced, text):
        opening = _OPENING.search(candidate)
        if opening is not None:
            value = _repaired(candidate[opening.start() :])
            if isinstance(value, dict | list) and value:
                return value
    return None


def _strict(text: str) -> object | None:
    try:
        value: object = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return value


def _repaired(text: str) -> object | None:
    if max(text.count("["), text.count("{")) > _MAX_DEPTH and _depth(text) > _MAX_DEPTH:
        return None  # no plan nests so deep, and the repair's time grows with the depth
    try:
        value: object = repair_json(text, return_objects=True, skip_json_loads=True)
    except _REPAIR_FAILURES:
        return None
    return value


def _depth(text: str) -> int:
    """How deep brackets nest, those within strings counted too."""
    depth = deepest = 0
    for character in text:
        if character in "[{":
            depth += 1
            deepest = max(deepest, depth)
        elif character in "]}":
            depth = max(0, depth - 1)
    return deepest
