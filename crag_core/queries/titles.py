"""The titles that a page about an entity may have."""

import re
from collections.abc import Iterator, Sequence

from crag_core.queries.matching import Matched
from crag_core.queries.wording import AUXILIARIES, QUESTION_WORDS, title_case, without_article
from crag_core.types import SearchQuery, Strategy

_MOST_HINTED = 4
_MIDDLE_NAME = re.compile(
    r"([^\W\d_a-z][^\s.,]+) (?:[^\W\d_a-z]\.|[^\W\d_a-z][^\s.,]+) ([^\W\d_a-z][^\s.,]+)"
)
"""Three capitalised words, the middle one perhaps an initial."""

_DESCRIPTOR = re.compile(r"(?=[^()]*[^\W\d_]{3})(?!born |c\. |\d{1,2} \w+ \d)[^()]{3,60}")


def direct_titles(matched: Matched) -> Iterator[SearchQuery]:
    """The entity as it is written, and as a title would be."""
    name = matched.entity
    spellings = [name]
    if (bare := without_article(name)) != name:
        spellings = [bare, name] if name[0].islower() else [name, bare]
    if name.islower():
        spellings = [*map(title_case, spellings), *spellings]
    if name.split()[0].casefold() in QUESTION_WORDS | AUXILIARIES:
        spellings.append(f"{name}?")  # a title may be a question too
    for spelling in dict.fromkeys(spellings):
        yield SearchQuery(spelling, Strategy.DIRECT, name, matched.reason)
    if (short := _MIDDLE_NAME.fullmatch(name)) is not None:
        reason = f"{matched.reason}; without the middle name"
        yield SearchQuery(f"{short[1]} {short[2]}", Strategy.DIRECT, name, reason)


def typed_titles(matched: Matched) -> Iterator[SearchQuery]:
    """The entity with the qualifiers of the question, then of its kind."""
    name = title_case(matched.entity) if matched.entity.islower() else matched.entity
    if "(" in name:
        return
    for qualifier in dict.fromkeys((*matched.qualifiers, *matched.kind.qualifiers)):
        reason = f"{matched.reason}; asks for {matched.kind.name}"
        yield SearchQuery(f"{name} ({qualifier})", Strategy.TYPED, matched.entity, reason)


def hinted_titles(matched: Matched, hints: Sequence[str]) -> Iterator[SearchQuery]:
    """The entity with a descriptor that the retrieved context gives it; dates describe nobody."""
    if not hints:
        return
    name = re.compile(re.escape(matched.entity) + rf" \(({_DESCRIPTOR.pattern})\)", re.IGNORECASE)
    titles = dict.fromkeys(match[0] for hint in hints for match in name.finditer(hint))
    for title in list(titles)[:_MOST_HINTED]:
        yield SearchQuery(title, Strategy.HINT, matched.entity, "stands so in the retrieved context")
