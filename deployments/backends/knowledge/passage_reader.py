"""Reads passages with a language model: atomic pairs for each, or why there are none."""

from collections.abc import Sequence
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any

from crag_core.compact.protocols import EntityFinder
from crag_core.compact.reader import read_pairs, reader_prompt, reader_sampling
from crag_core.context import Lane, RequestContext
from crag_core.errors import GenerationFailed, PromptTooLong
from crag_core.protocols import Generator
from crag_core.strips import sentence_spans
from deployments.backends.knowledge.ledger import PassageRead
from deployments.backends.knowledge.pair_file import PublishedPassage, judged_pairs, passage_hash

_ATTEMPTS = 3
_TIMEOUT_S = 600.0


@dataclass(frozen=True, slots=True)
class _Written:
    """One completion: its text, whether it came to its end, and its tokens."""

    text: str
    ended: bool
    prompt_tokens: int
    completion_tokens: int


@dataclass(frozen=True, slots=True)
class PassageReader:
    """The Reader: entities, a prompt, guided decoding, and other tries where one gives nothing.

    The first try is greedy, the second samples, the third reads the passage in two halves.
    """

    generator: Generator
    finder: EntityFinder
    max_new_tokens: int = 1_024

    async def read(self, passage: PublishedPassage) -> PassageRead:
        """The pairs of one passage as they were written; a failure is told, not raised.

        Raises StageUnavailable and what else means that the model itself is gone.
        """
        key = passage_hash(passage.title, passage.text)
        prompt_tokens = completion_tokens = 0
        failure = "no pair could be used"
        for attempt in range(1, _ATTEMPTS + 1):
            parts = [passage.text] if attempt < _ATTEMPTS else _halves(passage.text)
            pairs: list[Any] = []
            for part in parts:
                try:
                    written = await self._written(passage.title, part, attempt)
                except PromptTooLong:
                    failure = "the passage is longer than the model reads"
                    continue
                except GenerationFailed as error:
                    failure = error.message
                    continue
                prompt_tokens += written.prompt_tokens
                completion_tokens += written.completion_tokens
                pairs += read_pairs(written.text)
            if any(pair.flaw is None for pair in self.judged(passage, pairs)):
                return PassageRead(key, pairs, None, attempt, prompt_tokens, completion_tokens)
        return PassageRead(key, [], failure, _ATTEMPTS, prompt_tokens, completion_tokens)

    def judged(self, passage: PublishedPassage, pairs: Sequence[Any]) -> list[Any]:
        """The pairs by the rules of the base: answers verbatim, questions that name something."""
        return judged_pairs(passage, pairs, verbatim=True)

    async def _written(self, title: str, text: str, attempt: int) -> _Written:
        (in_title, in_text) = self.finder.entities([title, text])
        prompt = reader_prompt(title, text, [*in_title, *in_text])
        ctx = RequestContext.starting_now(
            f"read-{passage_hash(title, text)[:16]}", _TIMEOUT_S, Lane.BATCH
        )
        sampling = reader_sampling(attempt, self.max_new_tokens)
        pieces: list[str] = []
        async with aclosing(self.generator.generate(ctx, prompt, sampling)) as completion:
            async for piece in completion:
                pieces.append(piece.text)
                if piece.finish_reason is not None:
                    usage = piece.usage
                    return _Written(
                        "".join(pieces),
                        piece.finish_reason == "stop",
                        usage.prompt_tokens if usage else 0,
                        usage.completion_tokens if usage else 0,
                    )
        raise GenerationFailed("the completion did not come to its end")


def _halves(text: str) -> list[str]:
    """A passage in two, at the end of a sentence near its middle; one sentence stays whole."""
    ends = [end for _, end in sentence_spans(text)]
    middle = next((end for end in ends[:-1] if end >= len(text) // 2), ends[0] if len(ends) > 1 else 0)
    return [half for half in (text[:middle], text[middle:]) if half.strip()]
