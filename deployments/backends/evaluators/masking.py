"""Masking: one question with one passage, tokenised once, to be scored with pieces of it masked."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Protocol

from crag_core.explaining import InputPieces, Piece, Side
from crag_core.types import Passage
from deployments.backends.batching.pair_scorer import PreparedPair
from deployments.backends.evaluators.evaluator_manifest import PassageForm
from deployments.backends.tokenization import Located, Tokens

Segment = tuple[Side, str]
"""A part of the evaluator's input, and where it comes from."""


class MaskablePair(Protocol):
    """A pair whose pieces can be masked: a set of pieces is a number, bit `i` set where `i` is kept."""

    @property
    def read(self) -> InputPieces:
        """What the evaluator reads of it."""
        ...

    def masked(self, kept: int) -> PreparedPair:
        """The pair with all other pieces masked, ready for the device."""
        ...


@dataclass(frozen=True, slots=True)
class PlacedTokens:
    """A model input, the pieces it is made of, and the piece that each id belongs to.

    An id that the tokenizer's template added belongs to none, and is never masked.
    """

    tokens: Tokens
    pieces: tuple[Piece, ...]
    owners: tuple[int | None, ...]

    def masked(self, kept: int, mask_id: int) -> Tokens:
        """Each masked id replaced by the mask, as in a masked language model's training."""
        ids = [
            token if _is_kept(owner, kept) else mask_id
            for token, owner in zip(self.tokens.ids, self.owners, strict=True)
        ]
        return self.tokens._replace(ids=ids)

    def collapsed(self, kept: int, marks: Sequence[int]) -> list[int]:
        """Each run of masked ids replaced by one mark, the next one for each run, as in T5's training.

        The end mark belongs to no piece, so every input has one, however much of it is masked.
        """
        ids: list[int] = []
        runs = 0
        for token_is_kept, run in groupby(
            zip(self.tokens.ids, self.owners, strict=True), key=lambda placed: _is_kept(placed[1], kept)
        ):
            if token_is_kept:
                ids += [token for token, _ in run]
            else:
                ids.append(marks[min(runs, len(marks) - 1)])
                runs += 1
        return ids


def placed(located: Located, *texts: Sequence[Segment]) -> PlacedTokens:
    """The pieces of an input whose texts are these segments joined.

    Ids that stand for the same characters, as the bytes of one do, are one piece. One that stands for
    white space alone belongs to the piece after it.
    """
    pieces: list[Piece] = []
    owners: list[int | None] = []
    for place in located.places:
        if place is None:
            owners.append(None)
            continue
        text, start, end = place
        piece = _piece(texts[text], start, end)
        if piece is None:
            owners.append(len(pieces))
            continue
        if not pieces or not _overlap(pieces[-1], piece):
            pieces.append(piece)
        owners.append(len(pieces) - 1)
    # white space at the very end has no piece after it
    owners = [None if owner is None or not pieces else min(owner, len(pieces) - 1) for owner in owners]
    return PlacedTokens(located.tokens, tuple(pieces), tuple(owners))


def passage_segments(form: PassageForm, passage: Passage) -> list[Segment]:
    """What the evaluator reads of a passage: its text, or its title, a mark, and its text."""
    read = form.of(passage)
    if read == passage.text:
        return [(Side.PASSAGE, read)]
    mark = read[len(passage.title) : len(read) - len(passage.text)]
    return [(Side.TITLE, passage.title), (Side.SEPARATOR, mark), (Side.PASSAGE, passage.text)]


def joined(segments: Sequence[Segment]) -> str:
    """The text that segments are parts of."""
    return "".join(text for _, text in segments)


def _is_kept(owner: int | None, kept: int) -> bool:
    return owner is None or bool(kept >> owner & 1)


def _piece(segments: Sequence[Segment], start: int, end: int) -> Piece | None:
    """The piece at these code points of the segments joined; `None` where there is only white space."""
    begins = 0
    for side, text in segments:
        said = text[max(start - begins, 0) : max(end - begins, 0)]
        if said.strip():
            first = max(start - begins, 0) + len(said) - len(said.lstrip())
            return Piece(side, first, first + len(said.strip()), said.strip())
        begins += len(text)
    return None


def _overlap(one: Piece, other: Piece) -> bool:
    return one.side is other.side and other.start < one.end
