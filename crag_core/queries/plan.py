"""What is searched for, and the plan made of it: ranked queries, each with the reason for it."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from crag_core.queries.kinds import ANY, QuestionKind
from crag_core.types import Choice, SearchQuery, Strategy, Task

MAX_TITLES = 20
"""Titles of one plan: as many introductions as one request to a MediaWiki can bring."""


@dataclass(frozen=True, slots=True)
class Sought:
    """A question to make queries of, or a query to be used as it is.

    `hints` are titles and texts of the retrieved context, which may say `Name (descriptor)`.
    """

    text: str
    is_query: bool = False
    task: Task = Task.QUESTION
    choices: tuple[Choice, ...] = ()
    hints: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class SearchPlan:
    """Ranked queries: page titles to look up together, and full-text queries, one at a time.

    `entities` are the names that the question is about, best first, of which `needed` must have a
    page; `kind` is what it asks of them.
    """

    entities: tuple[str, ...]
    kind: QuestionKind = ANY
    queries: tuple[SearchQuery, ...] = ()
    needed: int = 1

    @property
    def titles(self) -> tuple[SearchQuery, ...]:
        """The look-ups by title, at most MAX_TITLES."""
        found = [query for query in self.queries if query.strategy is not Strategy.SEARCH]
        return tuple(found[:MAX_TITLES])

    @property
    def searches(self) -> tuple[SearchQuery, ...]:
        """The full-text queries."""
        return tuple(query for query in self.queries if query.strategy is Strategy.SEARCH)


class EntityFinder(Protocol):
    """Finds names in a text, in its order; called in a thread, by several at once."""

    def find(self, text: str) -> Sequence[str]: ...
