"""An evaluator to explain, whose scores anybody can work out."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from crag_core.context import RequestContext
from crag_core.explaining import InputPieces, Piece, Side
from crag_core.strips import word_spans
from crag_core.types import Passage, Score
from tests.fakes import FakeEvaluator

Said = Sequence[str]
"""The words that are left of question and passage."""


@dataclass
class FakeMaskableEvaluator(FakeEvaluator):
    """Reads words, with a separator between the two texts; scores what is left of them.

    Its whole score is that of all words, unless `whole` says otherwise.
    """

    worth: Callable[[Said], Score] = lambda words: float(len(words))
    whole: Score | None = None
    truncated: bool = False
    asked_for: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._said: Said = ()

    def _score(self, text: str) -> Score | None:
        if not text.strip():
            return None
        question, _ = self.calls[-1]
        pieces = _pieces(question, Passage(text))
        return self.worth([piece.text for piece in pieces]) if self.whole is None else self.whole

    async def pieces(self, ctx: RequestContext, question: str, passage: Passage) -> InputPieces:
        return InputPieces(tuple(_pieces(question, passage)), self.truncated)

    async def evaluate_masked(
        self, ctx: RequestContext, question: str, passage: Passage, kept: Sequence[int]
    ) -> Sequence[Score]:
        self.asked_for.append(len(kept))
        self.contexts.append(ctx)
        if self.error:
            raise self.error
        pieces = _pieces(question, passage)
        return [
            self.worth([piece.text for place, piece in enumerate(pieces) if each >> place & 1])
            for each in kept
        ]


def _pieces(question: str, passage: Passage) -> list[Piece]:
    pieces = [_piece(Side.QUESTION, question, *span) for span in word_spans(question)]
    pieces.append(Piece(Side.SEPARATOR, 1, 6, "[SEP]"))
    return pieces + [_piece(Side.PASSAGE, passage.text, *span) for span in word_spans(passage.text)]


def _piece(side: Side, text: str, start: int, end: int) -> Piece:
    return Piece(side, start, end, text[start:end])
