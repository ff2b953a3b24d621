"""What to search the web for: the question without the words that only make it a question."""

import re

_QUESTION_WORDS = re.compile(
    r"^(?:(?:in|at|on|of|for|by|from|to|with|about)\s+)?"
    r"(?:what|who|whom|whose|which|where|when|why|how)(?:['\u2019]s)?\b"
    r"(?:\s+(?:is|are|was|were|did|does|do|has|have|had|can|could|will|would)\b)?"
    r"(?:\s+(?:the|a|an)\b)?",
    re.IGNORECASE,
)
_END = "?.! \uff1f\u3002\uff01\u061f"


def search_query(question: str) -> str:
    """The full-text query for a question; each searcher makes it safe for its own syntax.

    >>> search_query("What is Henry Feilden's occupation?")
    "Henry Feilden's occupation"
    >>> search_query("Who?")
    'Who'
    """
    plain = " ".join(question.split()).rstrip(_END)
    return _QUESTION_WORDS.sub("", plain).strip() or plain
