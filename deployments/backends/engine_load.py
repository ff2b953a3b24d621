"""How full an engine is: completions that run or wait there, as shares of what it can hold."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass


@dataclass(slots=True)
class Held:
    """What one completion holds of the engine: its prompt, and what it has written."""

    tokens: int


class EngineLoad:
    """Counts what is in an engine of so many sequences and tokens of KV cache."""

    def __init__(self, max_sequences: int, kv_tokens: int) -> None:
        """`kv_tokens` 0 means unknown: then sequences alone count."""
        self._max_sequences = max_sequences
        self._kv_tokens = kv_tokens
        self._completions: dict[int, Held] = {}

    @contextmanager
    def completion(self, prompt_tokens: int) -> Iterator[Held]:
        """One completion, from its submission to its end; add to its tokens as they are written."""
        held = Held(prompt_tokens)
        self._completions[id(held)] = held
        try:
            yield held
        finally:
            del self._completions[id(held)]

    @property
    def fill(self) -> float:
        """The fuller of sequences and KV cache; above 1, some of the completions wait."""
        tokens = sum(held.tokens for held in self._completions.values())
        by_tokens = tokens / self._kv_tokens if self._kv_tokens else 0.0
        return max(len(self._completions) / self._max_sequences, by_tokens)
