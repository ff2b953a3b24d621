"""The plan of a search: which titles to look up together, and what to search the full text for."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import chain, zip_longest

from crag_core.queries.kinds import ANY
from crag_core.queries.matching import Matched, matches
from crag_core.queries.names import asian_topic, capitalised_names, quoted_names
from crag_core.queries.plan import EntityFinder, SearchPlan, Sought
from crag_core.queries.templates import OF_TWO
from crag_core.queries.titles import direct_titles, hinted_titles, typed_titles
from crag_core.queries.wording import content_words, folded, tidied
from crag_core.types import SearchQuery, Strategy, Task

_MOST_ENTITIES = 4
_LONGEST_NAME = 200
_LONGEST_TEMPLATED = 400
"""Longer texts are no question that a template could know."""

_LONGEST_FULL_TEXT = 8
"""Words: a wiki's search wants all of them in a page."""

_LONGEST_CHOICE_WORDS = 4
_SEARCH_WORDS = 6
_QUESTION_START = re.compile(
    r"^(?:(?:in|at|on|of|for|by|from|to|with|about)\s+)?"
    r"(?:what|who|whom|whose|which|where|when|why|how)(?:['\u2019]s)?\b"
    r"(?:\s+(?:is|are|was|were|did|does|do|has|have|had|can|could|will|would)\b)?"
    r"(?:\s+(?:the|a|an)\b)?",
    re.IGNORECASE,
)


def plan_search(sought: Sought, finder: EntityFinder | None = None) -> SearchPlan:
    """Ranked queries for what is sought; without an entity, full text alone; of nothing, no query.

    >>> plan_search(Sought("Which film came out first, Alien or Aliens?")).entities
    ('Alien', 'Aliens')
    """
    text = tidied(sought.text)
    if not text:
        return SearchPlan(())
    if sought.is_query:
        return _plan([Matched(text, ANY, "the query itself")], [], text, sought.hints)
    if sought.task is Task.CHOICE:
        return _choice_plan(text, sought)
    is_question = sought.task is not Task.CLAIM and len(text) <= _LONGEST_TEMPLATED
    found = list(matches(text)) if is_question else []
    found = [replace(each, entity=each.entity.strip(" ,\"'\u201c\u201d")) for each in found]
    found = [each for each in found if 0 < len(each.entity) <= _LONGEST_NAME]
    names = _names(text, finder)
    if _is_sentence(found) and names:
        found = []
    kind = found[0].kind if found else ANY
    if quoted := quoted_names(text)[:_MOST_ENTITIES]:
        known = {folded(name) for name in quoted}
        found = [each for each in found if folded(each.entity) in known]
        found += [
            Matched(name, kind, "in quotation marks")
            for name in quoted
            if folded(name) not in {folded(each.entity) for each in found}
        ]
    inner = [Matched(name, ANY, "name inside") for name in names]
    if not found:
        found, inner = [replace(each, reason="name in the text") for each in inner], []
    return _plan(found[:_MOST_ENTITIES], inner, full_text_query(text), sought.hints)


def full_text_query(question: str) -> str:
    """The question without the words that only make it a question.

    >>> full_text_query("What is Henry Feilden's occupation?")
    "Henry Feilden's occupation"
    >>> full_text_query("Who?")
    'Who'
    """
    plain = tidied(question)
    words = _QUESTION_START.sub("", plain).strip() or plain
    if len(words.split()) <= _LONGEST_FULL_TEXT:
        return words
    return " ".join(content_words(words)[:_LONGEST_FULL_TEXT]) or words


def _names(text: str, finder: EntityFinder | None) -> list[str]:
    topic = asian_topic(text)
    found = [*quoted_names(text), *([topic] if topic else capitalised_names(text))]
    # after the rules: where both find names, those of the rules are more often titles
    found += [name for name in (finder.find(text) if finder else ()) if len(name) <= _LONGEST_NAME]
    return _distinct(found)[:_MOST_ENTITIES]


def _distinct(names: Iterable[str]) -> list[str]:
    """The names, without those that another one before holds."""
    kept: list[str] = []
    for name in names:
        words = f" {folded(name)} "
        if words.strip() and not any(words in f" {folded(other)} " for other in kept):
            kept.append(name)
    return kept


def _is_sentence(found: Sequence[Matched]) -> bool:
    """Whether a template took in half a sentence: long, and hardly any of it a name."""
    words = found[0].entity.split() if found else []
    small = sum(word[:1].islower() for word in words)
    return len(words) > 7 and small > len(words) / 2


def _plan(
    found: Sequence[Matched], inner: Sequence[Matched], question: str, hints: Sequence[str]
) -> SearchPlan:
    known = {folded(each.entity) for each in found}
    spare = [each for each in inner if folded(each.entity) not in known]
    direct = [query for each in (*found, *spare) for query in direct_titles(each)]
    hinted = [query for each in found for query in hinted_titles(each, hints)]
    typed = chain.from_iterable(zip_longest(*(typed_titles(each) for each in found)))
    searches = [SearchQuery(each.entity, Strategy.SEARCH, each.entity, each.reason) for each in found]
    entities = tuple(dict.fromkeys(each.entity for each in found))
    about = entities[0] if entities else question
    rest = SearchQuery(question, Strategy.SEARCH, about, "the question without its question words")
    queries = [*direct, *hinted, *filter(None, typed), *searches, rest]
    unique = {(query.strategy is Strategy.SEARCH, query.text): query for query in reversed(queries)}
    return SearchPlan(
        entities=entities,
        kind=found[0].kind if found else ANY,
        queries=tuple(reversed(unique.values())),
        needed=2 if len(found) > 1 and found[0].reason in OF_TWO else 1,
    )


def _choice_plan(text: str, sought: Sought) -> SearchPlan:
    """For a multiple choice: the concepts that the question and its choices name."""
    words = content_words(text, longer_than=3)
    names = [Matched(name, ANY, "name in the text") for name in capitalised_names(text)[:2]]
    runs = [" ".join(words[:size]) for size in (3, 2) if len(words) >= size]
    names += [Matched(run.lower(), ANY, "first content words") for run in runs]
    names += [
        Matched(choice.text, ANY, f"choice {choice.label}")
        for choice in sought.choices
        if 0 < len(choice.text.split()) <= _LONGEST_CHOICE_WORDS and not choice.text[0].isdecimal()
    ]
    direct = [query for each in names for query in direct_titles(each)]
    search = SearchQuery(" ".join(words[:_SEARCH_WORDS]), Strategy.SEARCH, "", "content words")
    return SearchPlan((), ANY, (*direct, *([search] if search.text else [])))
