"""What to search the web for: the question without the words that only make it a question."""

import re

_QUESTION_WORDS = re.compile(
    r"^(?:(?:in|at|on|of|for|by|from|to|with|about)\s+)?"
    r"(?:what|who|whom|whose|which|where|when|why|how)(?:'s)?\b"
    r"(?:\s+(?:is|are|was|were|did|does|do|has|have|had|can|could|will|would)\b)?"
    r"(?:\s+(?:the|a|an)\b)?",
    re.IGNORECASE,
)
_OPERATORS = re.compile(r'["<>\[\]{}|~^*\\]|\b(?:insource|intitle|incategory):|(?<!\w)[-+!](?=\w)')
_QUERY_CHARACTERS = 300
"""MediaWiki refuses longer searches."""


def search_query(question: str) -> str:
    """The full-text query for a question, at most 300 characters, without search operators.

    >>> search_query("What is Henry Feilden's occupation?")
    "Henry Feilden's occupation"
    >>> search_query("Who?")
    'Who'
    """
    plain = " ".join(_OPERATORS.sub(" ", question).split()).rstrip("?.! ？。！")
    words = _QUESTION_WORDS.sub("", plain).strip()
    query = words or plain
    if len(query) > _QUERY_CHARACTERS:
        query = query[:_QUERY_CHARACTERS].rpartition(" ")[0] or query[:_QUERY_CHARACTERS]
    return query
