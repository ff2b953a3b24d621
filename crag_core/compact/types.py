"""The values of CompactRAG: atomic pairs, plans, and what the small models read."""

from dataclasses import dataclass, field

from crag_core.types import Document, Score, Strip


@dataclass(frozen=True, slots=True)
class AtomicQA:
    """One fact as a question with its answer, and the passage that it was read from.

    A passage, or a strip of one, may stand in for a pair: then its title is the question, and
    `place` says where in the passage it is.
    """

    id: str
    question: str
    answer: str
    passage_id: str
    title: str = ""
    url: str | None = None
    place: Strip | None = None

    @property
    def strip(self) -> Strip:
        """The pair as evidence that can be cited: all of itself, or the place in its passage."""
        text = f"{self.question}\n{self.answer}"
        return self.place or Strip(text, self.id, 0, len(text))

    @property
    def document(self) -> Document:
        """What the strip is a part of, as far as a citation needs it."""
        return Document(self.strip.document_id, self.strip.text, self.title, url=self.url)


@dataclass(frozen=True, slots=True)
class ScoredPair:
    """A pair with the cosine of its embedding and the query's."""

    pair: AtomicQA
    score: Score


@dataclass(frozen=True, slots=True)
class SubQuestion:
    """One question of a plan; `#1` in its text stands for the answer of the plan's first.

    `references` are the positions of the sub-questions whose answers it needs. One that only
    compares answers is left to the synthesis: no passage says which of two films came first.
    """

    text: str
    references: tuple[int, ...] = ()
    is_comparison: bool = False


@dataclass(frozen=True, slots=True)
class Plan:
    """Sub-questions in the order given, without cycles; `levels` can be resolved one after another.

    `is_malformed` says that nothing could be read, so that the question itself is the plan;
    `was_cut`, that sub-questions over the limits were dropped.
    """

    sub_questions: tuple[SubQuestion, ...]
    levels: tuple[tuple[int, ...], ...]
    is_malformed: bool = False
    was_cut: bool = False


@dataclass(frozen=True, slots=True)
class Rewriting:
    """A sub-question and the one earlier answer that its reference means."""

    question: str
    entity: str


@dataclass(frozen=True, slots=True)
class Reading:
    """A grounded sub-question and the pairs found for it, best first; each pair is one block."""

    question: str
    pairs: tuple[ScoredPair, ...]


@dataclass(frozen=True, slots=True)
class ExtractedAnswer:
    """A span of one pair: its text, the position of the pair, and the extractor's score."""

    text: str
    pair: int
    score: Score


@dataclass(frozen=True, slots=True)
class ResolvedHop:
    """A sub-question with what was asked, found and read; `level` is `None` for a comparison."""

    sub_question: SubQuestion
    level: int | None
    asked: str
    found: tuple[ScoredPair, ...] = field(default=())
    answer: str | None = None
