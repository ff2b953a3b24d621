"""The answer extractor: a span model (RoBERTa) over the pairs found for a sub-question.

Start and end are decoded together: a span lies within the answer of one pair, is no longer than an
answer, and must beat the model's own "no answer" at the start token. The released code takes both
maxima apart, so that about one output in six is empty, crosses pairs, or holds special tokens.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from transformers import AutoModelForQuestionAnswering, AutoTokenizer

from crag_core.compact.types import ExtractedAnswer, Reading
from crag_core.errors import SettingsError, StageFailed
from deployments.backends.device import torch_device
from deployments.backends.model_folder import model_folder, tokenizer_file, weights_file
from deployments.backends.tokenization import pack, padded_ids
from deployments.settings import ExtractorSettings

BETWEEN_PAIRS = "\n\n"
"""What stands between two pairs; between a pair's question and its answer stands one line feed."""


@dataclass(frozen=True, slots=True)
class AnswerTokens:
    """The answer of the pair at a position of a reading: tokens [first, past), characters from begin."""

    pair: int
    first: int
    past: int
    begin: int


@dataclass(frozen=True, slots=True)
class Window:
    """A question with some of the pairs of a reading, as the model reads them.

    `offsets` says of each token which characters of its text it stands for; `answers` has the pairs
    whose answers, or their beginnings, are in the window.
    """

    reading: int
    ids: list[int]
    answers: tuple[AnswerTokens, ...]
    offsets: list[tuple[int, int]]
    context: str

    def text(self, first: int, last: int) -> str:
        """What the tokens from `first` to `last` of one answer say."""
        return self.context[self.offsets[first][0] : self.offsets[last][1]].strip()


class SpanExtractor:
    """Reads answers out of pairs, several sub-questions to a forward pass."""

    def __init__(self, model: Any, tokenizer: Any, settings: ExtractorSettings) -> None:
        self._settings, self._tokenizer = settings, tokenizer
        self._model, self._device = model.eval(), model.device

    @classmethod
    def open(cls, settings: ExtractorSettings) -> "SpanExtractor":
        """Raises SettingsError when the folder holds no span model with a fast tokenizer."""
        folder = model_folder(settings.model, settings.revision)
        device = torch_device(settings.device)
        tokenizer = span_tokenizer(folder)
        weights_file(folder)
        try:
            model, report = AutoModelForQuestionAnswering.from_pretrained(
                folder, trust_remote_code=False, dtype=torch.float32, output_loading_info=True
            )
        except (OSError, ValueError, RuntimeError, KeyError) as error:
            raise SettingsError(
                f"{folder} holds no answer extractor that can be loaded: {error}"
            ) from error
        if report["missing_keys"]:
            missing = sorted(report["missing_keys"])[0]
            raise SettingsError(f"{folder} holds no trained answer extractor: it lacks {missing}")
        return cls(model.to(device), tokenizer, settings)

    def extract(self, readings: Sequence[Reading]) -> list[ExtractedAnswer | None]:
        """One answer per reading, in order; `None` where "no answer" scores best.

        Raises StageFailed when the model fails.
        """
        windows = self.windows(readings)
        best: list[ExtractedAnswer | None] = [None] * len(readings)
        for window, start, end in self._scored(windows):
            found = self._decode(window, start, end)
            known = best[window.reading]
            if found is not None and (known is None or found.score > known.score):
                best[window.reading] = found
        return best

    def windows(self, readings: Sequence[Reading]) -> list[Window]:
        """What the model reads, by position of the reading."""
        return [window for place, reading in enumerate(readings) for window in self._cut(place, reading)]

    def _cut(self, place: int, reading: Reading) -> Iterator[Window]:
        """The pairs of a reading, as many to a window as fit; a longer pair is cut at its end."""
        question = _readable(reading.question)
        taken: list[int] = []
        for position in range(len(reading.pairs)):
            if taken and not self._fits(question, reading, [*taken, position]):
                yield self._window(place, question, reading, taken)
                taken = []
            taken.append(position)
        if taken:
            yield self._window(place, question, reading, taken)

    def _fits(self, question: str, reading: Reading, positions: Sequence[int]) -> bool:
        context, _ = _context(reading, positions)
        encoded = self._tokenizer(question, context, truncation=False, verbose=False)
        return len(encoded["input_ids"]) <= self._settings.max_tokens

    def _window(self, place: int, question: str, reading: Reading, positions: Sequence[int]) -> Window:
        context, spans = _context(reading, positions)
        encoded = self._tokenizer(
            _first(question, self._settings.max_tokens),
            context,
            truncation="only_second",
            max_length=self._settings.max_tokens,
            return_offsets_mapping=True,
        )
        sequence, offsets = encoded.sequence_ids(0), encoded["offset_mapping"]
        tokens = [
            (index, *offsets[index])
            for index, which in enumerate(sequence)
            if which == 1 and offsets[index][0] < offsets[index][1]
        ]
        answers = []
        for position, (begin, end) in zip(positions, spans, strict=True):
            inside = [index for index, first, last in tokens if first >= begin and last <= end]
            if inside:
                answers.append(AnswerTokens(position, inside[0], inside[-1] + 1, begin))
        return Window(place, list(encoded["input_ids"]), tuple(answers), offsets, context)

    def _scored(self, windows: Sequence[Window]) -> Iterator[tuple[Window, Tensor, Tensor]]:
        lengths = [len(window.ids) for window in windows]
        for batch in pack(lengths, self._settings.max_tokens_per_batch):
            start, end = self._forward([windows[index].ids for index in batch])
            for row, index in enumerate(batch):
                yield windows[index], start[row], end[row]

    @torch.inference_mode()
    def _forward(self, inputs: Sequence[list[int]]) -> tuple[Tensor, Tensor]:
        ids, mask = padded_ids(inputs, self._tokenizer.pad_token_id or 0, self._device)
        try:
            output = self._model(input_ids=ids, attention_mask=mask)
        except (RuntimeError, ValueError, IndexError) as error:
            raise StageFailed("the answer extractor failed on a batch") from error
        return output.start_logits.float().cpu(), output.end_logits.float().cpu()

    def _decode(self, window: Window, start: Tensor, end: Tensor) -> ExtractedAnswer | None:
        """The best span within one answer, by the sum of its logits above those of no answer."""
        none = float(start[0] + end[0]) + self._settings.null_margin
        best: tuple[float, int, int, int] | None = None
        for answer in window.answers:
            first, past = answer.first, answer.past
            scores = start[first:past, None] + end[None, first:past]
            length = past - first
            allowed = torch.ones(length, length).triu().tril(self._settings.max_answer_tokens - 1)
            scores = scores.masked_fill(allowed == 0, -torch.inf)
            place = int(scores.argmax())
            score = float(scores.flatten()[place]) - none
            if best is None or score > best[0]:
                best = score, answer.pair, first + place // length, first + place % length
        if best is None or not best[0] > 0:
            return None
        score, position, begin, last = best
        text = window.text(begin, last)
        return ExtractedAnswer(text, position, score) if text else None


def _context(reading: Reading, positions: Sequence[int]) -> tuple[str, list[tuple[int, int]]]:
    """The pairs as the extractor was trained on them, and where the answer of each stands."""
    text, spans = "", []
    for position in positions:
        pair = reading.pairs[position].pair
        text += f"{BETWEEN_PAIRS if text else ''}{_readable(pair.question)}\n"
        answer = _readable(pair.answer)
        spans.append((len(text), len(text) + len(answer)))
        text += answer
    return text, spans


def span_tokenizer(folder: Path) -> Any:
    """The fast tokenizer of a folder, which reads the names of special tokens as text.

    Raises SettingsError when there is none.
    """
    tokenizer_file(folder)
    try:
        tokenizer = AutoTokenizer.from_pretrained(folder, trust_remote_code=False)
        tokenizer.backend_tokenizer.encode_special_tokens = True  # "</s>" in a pair is text
    except (OSError, ValueError, AttributeError) as error:
        raise SettingsError(f"{folder} holds no fast tokenizer: {error}") from error
    return tokenizer


def _first(question: str, max_tokens: int) -> str:
    """So much of an endless question that at least half of the window is left for the pairs."""
    return " ".join(question.split()[: max_tokens // 4])


def _readable(text: str) -> str:
    return text.encode("utf-8", "replace").decode("utf-8")
