"""An index on disk: a LanceDB table and, beside it, the manifest that says how it was built."""

import hashlib
import json
import unicodedata
from collections.abc import Sequence
from enum import StrEnum
from typing import Literal, Protocol

import lancedb
import numpy as np
from lancedb.table import Table
from numpy.typing import NDArray
from pyarrow.fs import FileSystem, LocalFileSystem
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from crag_core.errors import SettingsError
from deployments.settings import EncoderSettings, PageText, Pooling

MANIFEST = "manifest.json"
SEARCHED = "searched"
"""Column of the text that is embedded and searched: the row's template filled in, NFC."""

VECTOR = "vector"
MAX_PARTITIONS = 64
"""Most partitions of a vector index; a search probes as many, which is all of them: exact."""

LANCE_FAILURES = (RuntimeError, OSError, ValueError)
"""What LanceDB raises when a table cannot be read."""

_MAX_QUERY_CHARACTERS = 4_000
_FORMAT: Literal[1] = 1


class IndexKind(StrEnum):
    """What the rows of an index are."""

    PASSAGES = "passages"
    SNAPSHOT = "snapshot"
    ATOMIC_QA = "atomic_qa"


_BUILD_COMMANDS = {
    IndexKind.PASSAGES: "crag index build",
    IndexKind.SNAPSHOT: "crag snapshot build",
    IndexKind.ATOMIC_QA: "crag compact build",
}


class IdentifiedEncoder(Protocol):
    """Says which encoder it is; `fingerprint` changes with its weights."""

    @property
    def settings(self) -> EncoderSettings: ...
    @property
    def dimension(self) -> int: ...
    @property
    def fingerprint(self) -> str: ...


class Encoder(IdentifiedEncoder, Protocol):
    """Turns texts into embeddings, [texts, dimension]; called by one thread at a time."""

    def encode(self, texts: Sequence[str]) -> NDArray[np.float32]: ...


class _Record(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Source(_Record):
    """A file that an index was built from."""

    name: str
    sha256: str


class EncoderIdentity(_Record):
    """What must be equal of two encoders for their embeddings to be comparable."""

    encoder_sha256: str | None = None
    pooling: Pooling | None = None
    normalise: bool | None = None
    dimension: int | None = None

    @classmethod
    def of(cls, encoder: IdentifiedEncoder) -> "EncoderIdentity":
        """The identity of an encoder at hand."""
        return cls(
            encoder_sha256=encoder.fingerprint,
            pooling=encoder.settings.pooling,
            normalise=encoder.settings.normalise,
            dimension=encoder.dimension,
        )


class Manifest(_Record):
    """`manifest.json`: what an index holds; a lexical index has no encoder.

    Only a snapshot built from a dump has a `page_text`.
    """

    format: Literal[1] = _FORMAT
    kind: IndexKind
    encoder: str | None = None
    encoder_sha256: str | None = None
    pooling: Pooling | None = None
    normalise: bool | None = None
    dimension: int | None = None
    text_template: str
    page_text: PageText | None = Field(None, exclude_if=lambda value: value is None)
    rows: int = 0
    rejected: int = 0
    sources: tuple[Source, ...]

    @property
    def identity(self) -> EncoderIdentity:
        """The encoder the index was built with."""
        return EncoderIdentity(**{name: getattr(self, name) for name in EncoderIdentity.model_fields})

    @property
    def table(self) -> str:
        """The table's name: equal for equal sources, encoder and template, different for others.

        So that a new index grows beside the old one, and replacing the manifest is the whole swap.
        """
        made_from = self.model_dump(mode="json", exclude={"encoder", "rows", "rejected"})
        digest = hashlib.sha256(json.dumps(made_from, sort_keys=True).encode())
        return f"{self.kind}-{digest.hexdigest()[:16]}"


def read_manifest(uri: str, kind: IndexKind) -> Manifest:
    """The manifest of a finished index; raises SettingsError when there is none of this kind."""
    command = _BUILD_COMMANDS[kind]
    try:
        filesystem, folder = FileSystem.from_uri(uri) if "://" in uri else (LocalFileSystem(), uri)
        with filesystem.open_input_stream(f"{folder}/{MANIFEST}") as stream:
            manifest = Manifest.model_validate_json(stream.read())
    except FileNotFoundError as error:
        raise SettingsError(
            f"{uri} holds no finished index: build it, or finish an interrupted build, with `{command}`"
        ) from error
    except ValidationError as error:
        raise SettingsError(
            f"{uri}/{MANIFEST} is not a manifest of format {_FORMAT}: rebuild the index with `{command}`"
        ) from error
    except (OSError, ValueError) as error:
        raise SettingsError(f"{uri}/{MANIFEST} cannot be read: {error}") from error
    if manifest.kind is not kind:
        raise SettingsError(
            f"{uri} holds an index of kind {manifest.kind}, not {kind}: "
            f"name another, or build one with `{command}`"
        )
    return manifest


def open_table(uri: str, manifest: Manifest) -> Table:
    """The table that a manifest describes; raises SettingsError when it is missing or incomplete."""
    try:
        table = lancedb.connect(uri).open_table(manifest.table)
        rows = table.count_rows()
    except LANCE_FAILURES as error:
        raise SettingsError(
            f"the table {manifest.table} of the index {uri} cannot be read: "
            f"copy the whole folder again, or rebuild it with `{_BUILD_COMMANDS[manifest.kind]}`"
        ) from error
    if rows != manifest.rows:
        raise SettingsError(
            f"the index {uri} holds {rows} rows where its manifest says {manifest.rows}: "
            f"copy the whole folder again, or rebuild it with `{_BUILD_COMMANDS[manifest.kind]}`"
        )
    return table


def check_encoder(uri: str, manifest: Manifest, encoder: IdentifiedEncoder) -> None:
    """Raises SettingsError, naming both sides, unless the index was built with this encoder."""
    built_with, given = manifest.identity, EncoderIdentity.of(encoder)
    if built_with != given:
        raise SettingsError(
            f"the index {uri} was built with the encoder {manifest.encoder} ({_described(built_with)}), "
            f"but the encoder given is {encoder.settings.model} ({_described(given)}): "
            f"set the index's encoder, or rebuild with `{_BUILD_COMMANDS[manifest.kind]}`"
        )


def searchable(query: str) -> str:
    """Untrusted query text as the index spells it: NFC, encodable, and not endless."""
    encodable = query[:_MAX_QUERY_CHARACTERS].encode("utf-8", "replace").decode("utf-8")
    return unicodedata.normalize("NFC", encodable).strip()


def _described(identity: EncoderIdentity) -> str:
    return ", ".join(f"{name} {value}" for name, value in identity.model_dump(mode="json").items())
