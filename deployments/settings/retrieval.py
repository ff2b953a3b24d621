"""Settings of retrieval: encoders, the static corpus, and how snapshots are built."""

from enum import StrEnum

from pydantic import Field

from crag_core.settings import Settings


class Pooling(StrEnum):
    """How token embeddings become one embedding."""

    MEAN = "mean"
    CLS = "cls"


class PageText(StrEnum):
    """What of a page becomes its text in a snapshot that is built from a dump."""

    LEAD = "lead"
    PAGE = "page"


class EncoderSettings(Settings):
    """A dense encoder: a Hugging Face encoder with pooling (Contriever, MiniLM)."""

    model: str = Field(description="Folder or hub name of the encoder.")
    revision: str | None = Field(None, description="Pinned hub revision; null for a folder.")
    pooling: Pooling = Field(Pooling.MEAN, description="How token embeddings are pooled.")
    normalise: bool = Field(True, description="Whether embeddings are scaled to length 1.")
    max_tokens: int = Field(256, ge=8, description="Longer texts are truncated here.")
    max_tokens_per_batch: int = Field(4096, ge=64, description="Padded tokens per forward pass.")


class RetrieverSettings(Settings):
    """The static corpus: one index, searched by text and by vector, fused by reciprocal rank."""

    index: str = Field(description="Folder or object-store URI of a passage index.")
    encoder: EncoderSettings = Field(description="Must be the encoder the index was built with.")
    candidates: int = Field(50, ge=1, description="Hits taken from each side before fusion.")
    rrf_k: int = Field(60, ge=1, description="Constant of reciprocal rank fusion.")
