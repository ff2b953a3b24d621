"""Names in a question by spaCy, an optional help where no rule finds one."""

from collections.abc import Sequence
from typing import Self

from deployments.backends.reading.entities import SpacyEntities


class SpacyEntityFinder:
    """Finds the names of a text with a spaCy pipeline; some milliseconds a question."""

    def __init__(self, recogniser: SpacyEntities) -> None:
        self._recogniser = recogniser

    @classmethod
    def load(cls, name: str) -> Self:
        """Load a pipeline by its package's name or its folder; raises SettingsError."""
        return cls(SpacyEntities(name))

    def find(self, text: str) -> Sequence[str]:
        """The names in a text, in its order."""
        return [text[name.start : name.end] for name in self._recogniser.names(text)]
