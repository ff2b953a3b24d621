"""Names in a question by spaCy, an optional help where no rule finds one."""

from collections.abc import Sequence
from threading import Lock
from typing import Self

from crag_core.queries.wording import word_set
from deployments.backends.reading.entities import SpacyEntities

_NAMES = word_set("PERSON NORP FAC ORG GPE LOC PRODUCT EVENT WORK_OF_ART LAW LANGUAGE")
"""Labels of entities that a page may be about; dates and quantities are none."""


class SpacyEntityFinder:
    """Finds the names of a text with a spaCy pipeline; some milliseconds a question."""

    def __init__(self, recogniser: SpacyEntities) -> None:
        self._recogniser = recogniser
        self._lock = Lock()  # a pipeline keeps state while it works

    @classmethod
    def load(cls, name: str) -> Self:
        """Load a pipeline by its package's name or its folder; raises SettingsError."""
        return cls(SpacyEntities(name))

    def find(self, text: str) -> Sequence[str]:
        """The names in a text, in its order."""
        with self._lock:
            (entities,) = self._recogniser.entities([text])
        return [name for name, label in entities if label in _NAMES]
