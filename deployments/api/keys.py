"""API keys: whose they are and what they may do. Only their hashes are kept.

A keys file has one JSON object a line, so that a key is added by appending and removed by deleting:
`{"id": "search-team", "sha256": "...", "permissions": ["ask"], "requests_per_minute": 600}`. Two lines
with one id are two keys of one caller: that is how a key is replaced without a moment without any.
"""

import asyncio
import hashlib
import logging
import secrets
from collections.abc import Iterator, Mapping
from enum import StrEnum
from pathlib import Path

from pydantic import Field, SecretStr, ValidationError

from crag_core.errors import SettingsError
from crag_core.settings import Settings

_logger = logging.getLogger(__name__)

_PREFIX = "crag-"
_REREAD_S = 5.0
_MAX_KEYS = 1_000
"""Each id is a series of the usage metrics."""


class Permission(StrEnum):
    """What a key opens: the routes that answer, or the operator's."""

    ASK = "ask"
    OPERATE = "operate"


class ApiKey(Settings):
    """A key as it is kept, with its caller's limits."""

    id: str = Field(
        pattern=r"^[a-z0-9][a-z0-9_.-]{0,62}$", description="Whose it is; in metrics and logs."
    )
    sha256: str = Field(pattern=r"^[0-9a-f]{64}$", description="Hash of the secret, in hexadecimal.")
    permissions: tuple[Permission, ...] = Field((Permission.ASK,), description="What it opens.")
    requests_per_minute: int | None = Field(
        None, ge=1, description="Requests of this id in a minute at most; null sets no limit of its own."
    )


class Keys:
    """The keys given as text and those of a file, which is read again when it changes."""

    def __init__(self, given: SecretStr | None = None, file: str | None = None) -> None:
        """Raises SettingsError, with the line, when a key cannot be used."""
        self._given = given.get_secret_value() if given else ""
        self._file = Path(file) if file else None
        self._file_text = self._read()
        self._by_hash = self._parsed(self._file_text)

    def __len__(self) -> int:
        return len(self._by_hash)

    def find(self, secret: str) -> ApiKey | None:
        """The key with this secret."""
        return self._by_hash.get(sha256_of(secret))

    async def watch(self) -> None:
        """Take over the file whenever it changes, for ever."""
        while True:
            await asyncio.sleep(_REREAD_S)
            await asyncio.to_thread(self.reread)

    def reread(self) -> None:
        """Take over a changed file; one that cannot be used is told to the log, and changes nothing."""
        try:
            text = self._read()
            if text == self._file_text:
                return
            self._by_hash = self._parsed(text)
        except SettingsError as error:
            _logger.error("the API keys stay as they were: %s", error)
            return
        self._file_text = text
        _logger.info("the API keys were read again: there are %d now", len(self))

    def _read(self) -> str:
        if self._file is None:
            return ""
        try:
            return self._file.read_text("utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise SettingsError(f"cannot read the keys file {self._file}: {error}") from error

    def _parsed(self, file_text: str) -> Mapping[str, ApiKey]:
        keys = [*_keys_in(self._given, "the API keys given"), *_keys_in(file_text, str(self._file))]
        if len(keys) > _MAX_KEYS:
            raise SettingsError(f"there are {len(keys)} API keys: {_MAX_KEYS} is the most")
        by_id: dict[str, ApiKey] = {}
        for key in keys:
            first = by_id.setdefault(key.id, key)
            if first != key.model_copy(update={"sha256": first.sha256}):
                raise SettingsError(
                    f"the API keys of {key.id} differ in what they may: make their lines equal"
                )
        return {key.sha256: key for key in keys}


def sha256_of(secret: str) -> str:
    """The hash of a secret. A plain one will do: a secret of 256 random bits cannot be guessed."""
    return hashlib.sha256(secret.encode(errors="replace")).hexdigest()


def new_secret() -> str:
    """A secret nobody has yet; its prefix lets scanners of leaked secrets know it."""
    return _PREFIX + secrets.token_urlsafe(32)


def _keys_in(text: str, where: str) -> Iterator[ApiKey]:
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip():
            continue
        try:
            yield ApiKey.model_validate_json(line)
        except ValidationError as error:
            problem = error.errors(include_input=False)[0]
            field = ".".join(str(part) for part in problem["loc"])
            raise SettingsError(
                f"{where}, line {number}: {field + ': ' if field else ''}{problem['msg']}"
            ) from None  # the original shows the line
