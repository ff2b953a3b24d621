"""Text to token ids for encoders and evaluators, safe for untrusted text, and packed by tokens."""

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

import torch
from tokenizers import Encoding
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence
from transformers import AutoTokenizer

from crag_core.errors import InvalidQuestion, SettingsError
from deployments.backends.model_folder import tokenizer_file

_MIN_PASSAGE_TOKENS = 32
"""A question that leaves a longer passage fewer tokens than this is refused, not cut."""


class Tokens(NamedTuple):
    """One model input: token ids with their segment ids.

    `truncated` says that the text was cut to fit, `is_empty` that nothing of it was readable.
    """

    ids: list[int]
    type_ids: list[int]
    truncated: bool
    is_empty: bool


class Located(NamedTuple):
    """A model input, and for each of its ids the text and code points it stands for.

    A place is `(text, start, end)`, where `text` is 0, or 1 for the second of a pair; `None` is an id
    that the tokenizer's template added.
    """

    tokens: Tokens
    places: list[tuple[int, int, int] | None]


class TextTokenizer:
    """A model's own fast tokenizer, for texts that nobody has checked.

    Text that spells a special token (`</s>`, `[SEP]`) never becomes that token: only the tokenizer's
    own template adds special ids, so nobody can end or split an input from within.
    """

    def __init__(self, folder: Path) -> None:
        """Raises SettingsError when the folder holds no usable tokenizer."""
        tokenizer_file(folder)  # without one, transformers would make up an empty vocabulary
        try:
            tokenizer = AutoTokenizer.from_pretrained(folder, trust_remote_code=False)
            backend = tokenizer.backend_tokenizer
        except (OSError, ValueError, AttributeError, ImportError) as error:
            raise SettingsError(f"{folder} holds no usable fast tokenizer: {error}") from error
        backend.no_truncation()
        backend.no_padding()
        backend.encode_special_tokens = True
        self._backend = backend
        self.pad_id: int = tokenizer.pad_token_id or 0
        self.vocabulary_size: int = backend.get_vocab_size()
        special = {i for i, token in backend.get_added_tokens_decoder().items() if token.special}
        self._special_ids = special.union(tokenizer.all_special_ids) - {tokenizer.unk_token_id}
        self._mask_id: int = next(
            i for i in (tokenizer.mask_token_id, tokenizer.unk_token_id, self.pad_id) if i is not None
        )

    def encode(self, texts: Sequence[str], max_tokens: int) -> list[Tokens]:
        """One input per text, the end of a long text cut off."""
        room = max_tokens - self._backend.num_special_tokens_to_add(False)
        return [self._finish(body, None, room) for body in self._bodies(texts)]

    def encode_prefixed(self, prefix: str, texts: Sequence[str], max_tokens: int) -> list[Tokens]:
        """One input per text, `prefix` and text read as one; only the text's end is ever cut off.

        Raises InvalidQuestion when the prefix alone fills the window.
        """
        room = max_tokens - self._backend.num_special_tokens_to_add(False)
        (head,) = self._bodies([prefix])
        bodies = self._bodies([prefix + text for text in texts])
        for body in bodies:
            _leave_room(room - len(head.ids), len(body.ids) - len(head.ids), max_tokens)
        return [self._finish(body, None, room, self._readable(head)) for body in bodies]

    def encode_pairs(self, first: str, seconds: Sequence[str], max_tokens: int) -> list[Tokens]:
        """One input per second text, paired with the first; only the second's end is ever cut off.

        Raises InvalidQuestion when the first text alone fills the window.
        """
        (question,) = self._bodies([first])
        room = max_tokens - self._backend.num_special_tokens_to_add(True) - len(question.ids)
        passages = self._bodies(seconds)
        for passage in passages:
            _leave_room(room, len(passage.ids), max_tokens)
        return [self._finish(question, passage, room) for passage in passages]

    def locate(self, text: str, max_tokens: int) -> Located:
        """The input of `encode`, with the place of each id."""
        (body,) = self._bodies([text])
        return self._located(body, None, max_tokens - self._backend.num_special_tokens_to_add(False))

    def locate_pair(self, first: str, second: str, max_tokens: int) -> Located:
        """The input of `encode_pairs`, with the place of each id."""
        question, passage = self._bodies([first, second])
        room = max_tokens - self._backend.num_special_tokens_to_add(True) - len(question.ids)
        return self._located(question, passage, room)

    def _located(self, body: Encoding, pair: Encoding | None, room: int) -> Located:
        tokens = self._finish(body, pair, room)
        whole = self._backend.post_process(body, pair)
        own = [i for i, is_added in enumerate(whole.special_tokens_mask) if not is_added]
        text_of = {i: int(number >= len(body.ids)) for number, i in enumerate(own)}
        places = [(text_of[i], *whole.offsets[i]) if i in text_of else None for i in self._kept(whole)]
        return Located(tokens, places)

    @cached_property
    def mask_ids(self) -> tuple[int, ...]:
        """What stands for masked text: T5's `<extra_id_0>` and so on, in that order, or one mask."""
        return self._sentinels() or (self._mask_id,)

    def _sentinels(self) -> tuple[int, ...]:
        found: list[int] = []
        while (i := self._backend.token_to_id(f"<extra_id_{len(found)}>")) is not None:
            found.append(i)
        return tuple(found)

    def _bodies(self, texts: Sequence[str]) -> list[Encoding]:
        """Encodings without special tokens; lone surrogates, which are no text, become `?`."""
        readable = [text.encode("utf-8", "replace").decode("utf-8") for text in texts]
        encodings: list[Encoding] = self._backend.encode_batch(readable, add_special_tokens=False)
        return encodings

    def _readable(self, encoding: Encoding) -> int:
        return sum(token not in self._special_ids for token in encoding.ids)

    def _finish(self, body: Encoding, pair: Encoding | None, room: int, prefix: int = 0) -> Tokens:
        last = body if pair is None else pair
        is_empty = self._readable(last) <= prefix
        truncated = len(last.ids) > room
        if truncated:
            last.truncate(room)
        whole = self._backend.post_process(body, pair)
        ids, kinds, kept = whole.ids, whole.type_ids, self._kept(whole)
        return Tokens([ids[i] for i in kept], [kinds[i] for i in kept], truncated, is_empty)

    def _kept(self, whole: Encoding) -> list[int]:
        """All but the special tokens that a unigram vocabulary spells in a text, whatever
        `encode_special_tokens` says."""
        return [
            position
            for position, (token, is_added) in enumerate(
                zip(whole.ids, whole.special_tokens_mask, strict=True)
            )
            if is_added or token not in self._special_ids
        ]


def pack(lengths: Sequence[int], max_tokens: int) -> Iterator[list[int]]:
    """Positions of inputs in batches of similar length, at most `max_tokens` padded tokens each.

    An input longer than the bound travels alone.

    >>> list(pack([3, 9, 2, 3], max_tokens=9))
    [[2, 0, 3], [1]]
    """
    batch: list[int] = []
    for position in sorted(range(len(lengths)), key=lengths.__getitem__):
        if batch and lengths[position] * (len(batch) + 1) > max_tokens:
            yield batch
            batch = []
        batch.append(position)
    if batch:
        yield batch


def padded(inputs: Sequence[Tokens], pad_id: int, device: torch.device) -> dict[str, Tensor]:
    """`input_ids`, `attention_mask` and `token_type_ids`, each [inputs, longest], on a device."""

    def stack(rows: Sequence[list[int]], fill: int) -> Tensor:
        tensors = [torch.tensor(row, dtype=torch.long) for row in rows]
        return pad_sequence(tensors, batch_first=True, padding_value=fill).to(device)

    return {
        "input_ids": stack([tokens.ids for tokens in inputs], pad_id),
        "attention_mask": stack([[1] * len(tokens.ids) for tokens in inputs], 0),
        "token_type_ids": stack([tokens.type_ids for tokens in inputs], 0),
    }


def padding_of(inputs: Sequence[Tokens], batch: Mapping[str, Tensor]) -> int:
    """Tokens of the batch that belong to none of its inputs."""
    held: int = batch["input_ids"].numel()
    return held - sum(len(tokens.ids) for tokens in inputs)


def padded_ids(inputs: Sequence[list[int]], pad_id: int, device: torch.device) -> tuple[Tensor, Tensor]:
    """Token ids and attention mask, each [inputs, longest], on a device."""
    ids = pad_sequence([torch.tensor(row) for row in inputs], batch_first=True, padding_value=pad_id)
    mask = pad_sequence([torch.ones(len(row), dtype=torch.long) for row in inputs], batch_first=True)
    return ids.to(device), mask.to(device)


def _leave_room(room: int, wanted: int, max_tokens: int) -> None:
    if room < min(wanted, _MIN_PASSAGE_TOKENS):
        raise InvalidQuestion(
            f"the question is too long for the retrieval evaluator, which reads {max_tokens} tokens "
            "of question and passage together: shorten the question"
        )
