"""What a study notes of one sample, and how: its explanation and its counterfactuals."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Self
from zlib import crc32

import numpy as np

from crag_core.actions import trigger_action
from crag_core.context import Lane, RequestContext
from crag_core.explaining import ExplainAsk, Explanation, Method, TokenClass, Unit
from crag_core.types import Passage
from deployments.backends.dense_encoder import DenseEncoder
from deployments.backends.evaluators.batched_evaluator import BatchedEvaluator
from explainability.classes import words_of
from explainability.explaining import ScoreExplainer
from explainability.study.counterfactuals import changed
from explainability.study.samples import Sample

_PATIENCE_S = 3_600.0
_NO_ENTITY = "none"


@dataclass(frozen=True, slots=True)
class Changed:
    """The score and action of a changed pair."""

    score: float
    action: str


@dataclass(frozen=True, slots=True)
class Token:
    """A token's value and class."""

    text: str
    side: str
    token_class: str
    value: float


@dataclass(frozen=True, slots=True)
class Row:
    """One sample explained.

    `alignment` is the share of the question's name words that the passage says; `similarity` the cosine
    of question and passage without those words, by the encoder; `entity_type` the label of the
    question's first name. `second` and `gradients` are the same tokens' values by another method and by
    integrated gradients, where asked for and where there are any.
    """

    id: str
    set_name: str
    question: str
    title: str
    passage: str
    score: float
    base_value: float
    action: str
    evaluations: int
    additivity_error: float
    standard_error: float | None
    alignment: float | None
    similarity: float
    entity_type: str
    tokens: tuple[Token, ...]
    changes: Mapping[str, Changed]
    second: tuple[float, ...] = ()
    gradients: tuple[float, ...] = ()

    def as_fields(self) -> dict[str, Any]:
        """The row as JSON has it."""
        return asdict(self)

    @classmethod
    def of(cls, fields: Mapping[str, Any]) -> Self:
        """The row that these fields were."""
        return cls(
            **{
                **fields,
                "tokens": tuple(Token(**token) for token in fields["tokens"]),
                "changes": {name: Changed(**change) for name, change in fields["changes"].items()},
                "second": tuple(fields["second"]),
                "gradients": tuple(fields["gradients"]),
            }
        )

    def values(self, token_class: TokenClass) -> list[float]:
        """The values of its tokens of one class."""
        return [token.value for token in self.tokens if token.token_class == token_class]


@dataclass(frozen=True)
class Observer:
    """Makes rows: the evaluator under study, and the encoder that measures similarity.

    A sample gets `max_evaluations`, or so many a word and one more, where that is less.
    """

    evaluator: BatchedEvaluator
    explainer: ScoreExplainer
    encoder: DenseEncoder
    max_evaluations: int
    evaluations_per_word: int | None
    seed: int
    gradients: Callable[[Sample], Sequence[float]] | None = None
    """Integrated gradients of a sample's words, where the evaluator has them."""

    async def actions(self, samples: Sequence[Sample]) -> list[str]:
        """What the trigger decides from each sample alone."""
        scored = await asyncio.gather(*(self._scored(sample) for sample in samples))
        return [each.action for each in scored]

    async def row(self, sample: Sample, others: Sequence[Sample], second: Method | None = None) -> Row:
        """The sample explained and changed; `others` lend names and senses."""
        explanation = await self._explained(sample, Method.PARTITION)
        again: tuple[float, ...] = ()
        gradients: tuple[float, ...] = ()
        if second is not None:
            again = tuple(token.value for token in (await self._explained(sample, second)).tokens)
            if self.gradients is not None:
                gradients = tuple(await asyncio.to_thread(self.gradients, sample))
        names = self.explainer.names(sample.question)
        named = [word for n in names for word in words_of(sample.question[n.start : n.end])]
        said = set(words_of(f"{sample.passage.title} {sample.passage.text}"))
        return Row(
            sample.id,
            sample.set_name,
            sample.question,
            sample.passage.title,
            sample.passage.text,
            explanation.score,
            explanation.base_value,
            (await self._scored(sample)).action,
            explanation.evaluations,
            explanation.additivity_error,
            explanation.standard_error,
            sum(word in said for word in named) / len(named) if named else None,
            self._similarity(sample, set(named)),
            names[0].label if names else _NO_ENTITY,
            _tokens(explanation),
            {
                str(change): await self._scored(other)
                for change, other in changed(sample, others).items()
            },
            again,
            gradients,
        )

    async def _explained(self, sample: Sample, method: Method) -> Explanation:
        evaluations = self.max_evaluations
        if self.evaluations_per_word is not None:
            words = len(f"{sample.question} {_joined(sample.passage)}".split())
            evaluations = min(evaluations, self.evaluations_per_word * words + 1)
        # a seed of its own: orders shared by all samples would favour the same places in each
        seed = crc32(f"{self.seed}/{sample.id}".encode())
        ask = ExplainAsk(sample.question, sample.passage, Unit.WORD, method, evaluations, seed)
        return await self.explainer.explain(_context(), ask)

    async def _scored(self, sample: Sample) -> Changed:
        evaluation = await self.evaluator.evaluate(
            _context(Lane.BATCH), sample.question, [sample.passage]
        )
        (score,) = evaluation.scores
        scores = [] if score is None else [score]
        return Changed(score or 0.0, str(trigger_action(scores, evaluation.thresholds)))

    def _similarity(self, sample: Sample, named: set[str]) -> float:
        texts = [_without(sample.question, named), _without(_joined(sample.passage), named)]
        asked, read = self.encoder.encode(texts)
        return float(np.dot(asked, read) / (np.linalg.norm(asked) * np.linalg.norm(read)))


def _context(lane: Lane = Lane.EXPLAIN) -> RequestContext:
    return RequestContext.starting_now("study", _PATIENCE_S, lane)


def _tokens(explanation: Explanation) -> tuple[Token, ...]:
    class_of = {place: each.name for each in explanation.classes for place in each.tokens}
    return tuple(
        Token(token.text, str(token.side), str(class_of[place]), token.value)
        for place, token in enumerate(explanation.tokens)
    )


def _joined(passage: Passage) -> str:
    return f"{passage.title} {passage.text}".strip()


def _without(text: str, named: set[str]) -> str:
    """A text without the words of these names."""
    return " ".join(word for word in text.split() if not set(words_of(word)) & named)
