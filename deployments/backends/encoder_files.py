"""An encoder by its files alone: enough to compare it with an index, without loading it."""

import json
from functools import cached_property
from pathlib import Path

from crag_core.errors import SettingsError
from deployments.backends.model_folder import fingerprint, model_folder
from deployments.settings import EncoderSettings


class EncoderFiles:
    """Says of an encoder on disk what an index's manifest says of the one it was built with."""

    def __init__(self, settings: EncoderSettings) -> None:
        """Raises SettingsError when there is no such folder or model."""
        self.settings = settings
        self._folder: Path = model_folder(settings.model, settings.revision)

    @cached_property
    def fingerprint(self) -> str:
        """SHA-256 over the encoder's config, tokenizer and weights."""
        return fingerprint(self._folder)

    @cached_property
    def dimension(self) -> int:
        """Numbers in an embedding, as the model's config says."""
        try:
            return int(json.loads((self._folder / "config.json").read_bytes())["hidden_size"])
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise SettingsError(f"{self._folder} holds no encoder: its config names no size") from error
