"""What a question asks for, by the rules of the open reproduction's analysis."""

_RULES: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("occupation", ("occupation",)),
    ("genre", ("genre",)),
    ("country", ("country",)),
    ("city", ("city", "born")),
    ("sport", ("sport",)),
    ("director", ("director", "directed")),
    ("composer", ("composer", "composed")),
    ("author", ("author", "screenwriter", "wrote")),
    ("religion", ("religion",)),
)


def question_type(question: str) -> str:
    """The first type one of whose words stands in the question, else `other`.

    >>> question_type("In what city was Winston Churchill born?"), question_type("Who is Ann?")
    ('city', 'other')
    """
    lowered = question.lower()
    return next((kind for kind, words in _RULES if any(word in lowered for word in words)), "other")
