"""Named entities by spaCy."""

from collections.abc import Sequence

import spacy

from crag_core.errors import SettingsError
from deployments.backends.model_folder import local_folder

_NEEDED = ("tok2vec", "ner")
_MAX_CHARACTERS = 5_000
_BATCH = 64


class SpacyEntities:
    """An `EntityFinder`: the named entities of a spaCy pipeline, with OntoNotes labels."""

    def __init__(self, model: str) -> None:
        """Loads a folder or an installed pipeline package; raises SettingsError when there is none."""
        try:
            self._pipeline = spacy.load(local_folder(model))
        except (OSError, ValueError, ImportError) as error:
            raise SettingsError(
                f"the entity recogniser {model} cannot be loaded: name the folder or the installed "
                "package of a spaCy pipeline, such as en_core_web_sm"
            ) from error
        if "ner" not in self._pipeline.pipe_names:
            raise SettingsError(f"the spaCy pipeline {model} recognises no entities: it has no `ner`")
        unneeded = [name for name in self._pipeline.pipe_names if name not in _NEEDED]
        self._pipeline.disable_pipes(*unneeded)

    def entities(self, texts: Sequence[str]) -> list[list[tuple[str, str]]]:
        """The entities of each text with their labels, in order of appearance."""
        readable = [text[:_MAX_CHARACTERS].encode("utf-8", "replace").decode("utf-8") for text in texts]
        parsed = self._pipeline.pipe(readable, batch_size=_BATCH)
        return [[(entity.text, entity.label_) for entity in each.ents] for each in parsed]
