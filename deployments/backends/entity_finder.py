"""Names in a question by spaCy, an optional help where no rule finds one."""

import importlib.util
from collections.abc import Sequence
from pathlib import Path
from threading import Lock
from typing import Any, Self

from crag_core.errors import SettingsError
from crag_core.queries.wording import word_set

_NAMES = word_set("PERSON NORP FAC ORG GPE LOC PRODUCT EVENT WORK_OF_ART LAW LANGUAGE")
"""Labels of entities that a page may be about; dates and quantities are none."""


class SpacyEntityFinder:
    """Finds the names of a text with a spaCy pipeline; about 3 ms a question."""

    def __init__(self, pipeline: Any) -> None:
        self._pipeline = pipeline
        self._lock = Lock()  # a pipeline keeps state while it works

    @classmethod
    def load(cls, name: str) -> Self:
        """Load a pipeline by its package's name or its folder; raises SettingsError."""
        check_pipeline(name)
        import spacy

        try:
            return cls(spacy.load(name, disable=["tagger", "parser", "attribute_ruler", "lemmatizer"]))
        except (OSError, ValueError) as error:
            raise SettingsError(f"spaCy pipeline {name} cannot be loaded: {error}") from error

    def find(self, text: str) -> Sequence[str]:
        """The names in a text, in its order."""
        with self._lock:
            return [entity.text for entity in self._pipeline(text).ents if entity.label_ in _NAMES]


def check_pipeline(name: str) -> None:
    """Raise SettingsError when spaCy or the pipeline is not there; loads neither."""
    if importlib.util.find_spec("spacy") is None:
        raise SettingsError("searcher.entity_model needs spaCy: install crag-serve[entities]")
    if not Path(name).is_dir() and not (name.isidentifier() and importlib.util.find_spec(name)):
        raise SettingsError(
            f"spaCy pipeline {name} is neither a folder nor installed: install it, or set "
            "searcher.entity_model to null"
        )
