"""Players: what is given a value of its own, put together of the pieces that the evaluator reads."""

from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby

import numpy as np

from crag_core.explaining import Name, Piece, Side, Unit
from crag_core.strips import sentence_spans, word_spans
from explainability.coalitions import Coalitions, packed
from explainability.groups import Group, halved

Span = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Player:
    """A token or a larger unit: where it stands in its side's text, and which pieces it is made of."""

    side: Side
    start: int
    end: int
    text: str
    pieces: tuple[int, ...]


def players_of(
    pieces: Sequence[Piece], unit: Unit, texts: Mapping[Side, str], names: Mapping[Side, Sequence[Name]]
) -> list[Player]:
    """The players of an input, in its order; `texts` and `names` are those of its sides.

    A separator is one player, but of unit `token`.
    """
    spans = {side: list(_spans(text, unit, names.get(side, ()))) for side, text in texts.items()}
    players: list[Player] = []
    for _, run in groupby(enumerate(pieces), key=lambda placed: _home(placed, spans, unit)):
        placed = list(run)
        first = placed[0][1]
        start, end = first.start, placed[-1][1].end
        if first.side in spans:
            text = texts[first.side]
            start, end = _span_at(first, spans[first.side]) if spans[first.side] else (start, end)
            said = text[start:end]
        else:
            said = _joined([piece for _, piece in placed])
        players.append(Player(first.side, start, end, said, tuple(place for place, _ in placed)))
    return players


def kept_pieces(coalitions: Coalitions, players: Sequence[Player], pieces: int) -> list[int]:
    """The pieces that each coalition keeps, as sets written as numbers."""
    owner = np.zeros(pieces, dtype=np.intp)
    for position, player in enumerate(players):
        owner[list(player.pieces)] = position
    return packed(coalitions[:, owner])


def tree_of(players: Sequence[Player], texts: Mapping[Side, str]) -> Group:
    """A binary tree: what is asked against what is read, then sentences, then ever fewer words."""
    asked: list[Group] = []
    read: list[Group] = []
    for side, run in groupby(enumerate(players), key=lambda placed: placed[1].side):
        is_read = bool(read) or side in (Side.TITLE, Side.PASSAGE)
        (read if is_read else asked).append(_by_sentences(list(run), texts.get(side, "")))
    return halved([halved(half) for half in (asked, read) if half])


def _by_sentences(placed: Sequence[tuple[int, Player]], text: str) -> Group:
    starts = [start for start, _ in sentence_spans(text)]
    sentences = groupby(placed, key=lambda each: bisect_right(starts, each[1].start))
    return halved([halved([Group((place,)) for place, _ in sentence]) for _, sentence in sentences])


def _spans(text: str, unit: Unit, names: Sequence[Name]) -> Iterator[Span]:
    """What the players of a text are, in order; of unit `token` whatever the pieces are."""
    match unit:
        case Unit.TOKEN:
            return
        case Unit.WORD:
            yield from word_spans(text)
        case Unit.SENTENCE:
            yield from sentence_spans(text)
        case Unit.ENTITY:
            yield from _with_names(word_spans(text), names)


def _with_names(words: Iterator[Span], names: Sequence[Name]) -> Iterator[Span]:
    """Words, those of one name together."""
    starts = [name.start for name in names]

    def name_at(word: Span) -> int:
        place = bisect_right(starts, word[1] - 1) - 1
        return place if place >= 0 and names[place].end > word[0] else -1

    for place, run in groupby(words, key=name_at):
        found = list(run)
        if place >= 0:
            yield found[0][0], found[-1][1]
        else:
            yield from found


def _home(
    placed: tuple[int, Piece], spans: Mapping[Side, Sequence[Span]], unit: Unit
) -> tuple[Side, int]:
    """Names the player a piece belongs to: neighbours with an equal home are one player."""
    place, piece = placed
    if unit is Unit.TOKEN:
        return piece.side, place
    if piece.side not in spans:
        return piece.side, -1
    return piece.side, _place_of(piece, spans[piece.side])


def _joined(pieces: Sequence[Piece]) -> str:
    """The text of neighbours, with a blank where they do not touch."""
    ends = [pieces[0].start, *(piece.end for piece in pieces)]
    gaps = (" " if piece.start > end else "" for piece, end in zip(pieces, ends, strict=False))
    return "".join(gap + piece.text for gap, piece in zip(gaps, pieces, strict=True))


def _span_at(piece: Piece, spans: Sequence[Span]) -> Span:
    return spans[_place_of(piece, spans)]


def _place_of(piece: Piece, spans: Sequence[Span]) -> int:
    return max(0, bisect_right(spans, piece.start, key=lambda span: span[0]) - 1)
