"""What the tests of the indexes share: a small encoder, and files of JSON lines."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

from deployments.settings import EncoderSettings


@dataclass
class FakeEncoder:
    """Random embeddings that depend on the text alone; not normalised, so that lengths count."""

    fingerprint: str = "fake"
    dimension: int = 8
    settings: EncoderSettings = field(
        default_factory=lambda: EncoderSettings(model="fake", normalise=False)
    )
    error: Exception | None = None
    encoded: list[str] = field(default_factory=list)

    def encode(self, texts: Sequence[str]) -> NDArray[np.float32]:
        if self.error:
            raise self.error
        self.encoded += texts
        rows = [
            np.random.default_rng(crc32(text.encode())).normal(size=self.dimension) for text in texts
        ]
        return np.array(rows, dtype=np.float32)


def passages(count: int) -> list[dict[str, str]]:
    """That many passages, no two alike."""
    return [{"title": f"Page {i}", "text": f"Passage number {i} of many."} for i in range(count)]


def write_lines(file: Path, rows: Sequence[Mapping[str, Any]]) -> Path:
    """A file of JSON lines."""
    file.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return file
