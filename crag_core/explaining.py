"""Explanations of the evaluator's scores: their values, and the stages that make them."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from crag_core.context import RequestContext
from crag_core.protocols import Evaluator
from crag_core.types import Passage, Score


class Side(StrEnum):
    """Where a piece of the evaluator's input comes from; what stands between texts is a separator."""

    QUESTION = "question"
    SEPARATOR = "separator"
    TITLE = "title"
    PASSAGE = "passage"


class Unit(StrEnum):
    """What is given a value of its own."""

    TOKEN = "token"
    WORD = "word"
    ENTITY = "entity"
    SENTENCE = "sentence"


class Method(StrEnum):
    """How values are found; `auto` is `exact` where that is affordable, else `partition`.

    `exact` and `permutation` give Shapley values (Shapley 1953), `partition` Owen values (Owen 1977) of
    sentences, phrases and words; a permutation is an estimate, and so is a partition of a long passage.
    """

    AUTO = "auto"
    EXACT = "exact"
    PARTITION = "partition"
    PERMUTATION = "permutation"


class TokenClass(StrEnum):
    """What a token is to question and passage, by the names in both (Yalavarthi 2026)."""

    ENTITY_IN_BOTH = "entity_in_both"
    ENTITY_MISSING = "entity_missing"
    SEPARATOR = "separator"
    QUESTION_WORD = "question_word"
    OTHER = "other"


@dataclass(frozen=True, slots=True)
class Piece:
    """One token of the evaluator's input: code points `start` to `end` of its side's text."""

    side: Side
    start: int
    end: int
    text: str


@dataclass(frozen=True, slots=True)
class InputPieces:
    """All that the evaluator reads of a pair, in order; `truncated` when that is not all there is."""

    pieces: tuple[Piece, ...]
    truncated: bool


@dataclass(frozen=True, slots=True)
class ExplainAsk:
    """A pair to explain, and how; `max_evaluations` does not bound `exact`, which has few tokens."""

    question: str
    passage: Passage
    unit: Unit = Unit.WORD
    method: Method = Method.AUTO
    max_evaluations: int = 512
    seed: int = 0


@dataclass(frozen=True, slots=True)
class TokenValue:
    """What one token, or a larger unit, adds to the score; code points `start` to `end` of its side."""

    text: str
    side: Side
    start: int
    end: int
    value: float


@dataclass(frozen=True, slots=True)
class ClassValue:
    """What the tokens of one class add together; `tokens` are their positions."""

    name: TokenClass
    tokens: tuple[int, ...]
    value: float
    mean: float
    mean_absolute: float


@dataclass(frozen=True, slots=True)
class Explanation:
    """A score, token by token: `base_value` with everything masked, and what each token adds to it.

    `additivity_error` is how far base and values are from the score that the evaluator gives the pair
    itself; `standard_error` is that of an estimated value, by root mean square, `None` where nothing was
    estimated. `evaluations` counts masked inputs, each once.
    """

    score: Score
    base_value: Score
    tokens: tuple[TokenValue, ...]
    classes: tuple[ClassValue, ...]
    evaluations: int
    method: Method
    unit: Unit
    additivity_error: float
    standard_error: float | None
    truncated: bool
    evaluator_id: str


@dataclass(frozen=True, slots=True)
class Name:
    """A named entity: code points `start` to `end` of its text, and its label."""

    start: int
    end: int
    label: str


class NameFinder(Protocol):
    """Finds the named entities of a text, in order and without overlap."""

    def names(self, text: str) -> Sequence[Name]: ...


class MaskableEvaluator(Evaluator, Protocol):
    """An evaluator that also scores a pair with some of its pieces masked.

    A set of pieces is a number: bit `i` says that piece `i` is kept.
    """

    async def pieces(self, ctx: RequestContext, question: str, passage: Passage) -> InputPieces:
        """What it reads of the pair; raises InvalidQuestion when it can read no passage."""
        ...

    async def evaluate_masked(
        self, ctx: RequestContext, question: str, passage: Passage, kept: Sequence[int]
    ) -> Sequence[Score]:
        """One score per set of kept pieces, in order; raises EvaluationFailed."""
        ...


class Explainer(Protocol):
    """Explains the score of one question and passage."""

    async def explain(self, ctx: RequestContext, ask: ExplainAsk) -> Explanation: ...
