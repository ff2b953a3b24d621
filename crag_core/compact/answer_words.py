"""Words of questions: what kind of thing they ask for, and which relation they mean."""

import re

_WORD = re.compile(r"[\w'’-]*\w")
STOP_WORDS = frozenset(
    _WORD.findall(
        "a an the of in on at to for by with from and or is was are were be been did does do has have "
        "had who whom whose what which when where why how many much that this it its as film movie song"
    )
)
_PLACES = ("GPE", "LOC", "FAC")
_EXPECTED: tuple[tuple[re.Pattern[str], tuple[str, ...]], ...] = tuple(
    (re.compile(pattern, re.IGNORECASE), labels)
    for pattern, labels in (
        (r"^(when|(in |on )?(what|which) (year|date|day|month|century))|\bdate of\b", ("DATE",)),
        (r"^how (many|much|old|long|far|tall)\b", ("CARDINAL", "QUANTITY", "MONEY", "PERCENT", "DATE")),
        (r"\b(nationality|citizenship)\b", ("NORP", "GPE")),
        (r"\b(country|countries|nation)\b", ("GPE", "NORP", "LOC")),
        (r"\b(city|town|county|state|province|capital|region|continent|river)\b", _PLACES),
        (r"^where\b|\bplace (of|where)\b|\blocat", (*_PLACES, "ORG")),
        (r"^(who|whom|whose)\b", ("PERSON", "ORG", "NORP")),
        (r"\b(university|college|school|company|studio|label|publisher|team|club|band|party|employer)\b",
         ("ORG", "GPE", "FAC")),
        (r"\b(director|author|writer|composer|performer|singer|mother|father|spouse|wife|husband|son|"
         r"daughter|child|sibling|brother|sister|founder|creator|producer|actor|actress|player|"
         r"president|king|queen|artist)\b", ("PERSON",)),
        (r"\b(film|movie|book|novel|song|album|award|prize|show|series|game)s?\b",
         ("WORK_OF_ART", "ORG", "EVENT")),
    )
)  # fmt: skip
_RELATIONS: dict[str, frozenset[str]] = {
    relation: frozenset(words.split())
    for relation, words in {
        "direct": "director directed directs direct filmmaker",
        "compose": "composer composed composes music score soundtrack",
        "perform": "performer performed singer sang sung recorded artist sings performs",
        "write": "author writer wrote written writes",
        "spouse": "spouse wife husband married marry marriage wed",
        "parent": "father mother parents parent son daughter child children",
        "sibling": "sibling brother sister brothers sisters siblings",
        "born": "born birth birthplace birthday birthdate",
        "die": "died die dies death deathplace passed killed",
        "bury": "buried burial interred",
        "nation": "nationality country citizen citizenship nation",
        "award": "award awards won receive received prize",
        "publish": "published publisher publishes publish",
        "found": "founded established founder founding inception formed",
        "study": "study studied graduate graduated educated alma university college",
        "work": "work works worked employer employed working",
        "release": "released release premiered",
    }.items()
}
_FIRST_PARENT, _SECOND_PARENT = 0, -1


def content(text: str) -> set[str]:
    """The words of a text that carry meaning, without case and possessive."""
    words = (re.sub(r"['’]s$|['’]$", "", word) for word in _WORD.findall(text.casefold()))
    return {word for word in words if word and word not in STOP_WORDS}


def relations(text: str) -> set[str]:
    """The relations that a text is about, whatever the word for them.

    >>> sorted(relations("Who is the husband of the director?"))
    ['direct', 'spouse']
    """
    words = content(text)
    return {relation for relation, names in _RELATIONS.items() if words & names}


def expected_labels(question: str) -> tuple[str, ...]:
    """The OntoNotes labels that an answer to the question may have; none where nothing is known.

    >>> expected_labels("When was he born?")
    ('DATE',)
    """
    return next((labels for pattern, labels in _EXPECTED if pattern.search(question)), ())


def kinship_place(question: str) -> int:
    """Which of two parents is asked for: texts name the father first, the mother last."""
    asked = content(question)
    return _SECOND_PARENT if "mother" in asked and "father" not in asked else _FIRST_PARENT
