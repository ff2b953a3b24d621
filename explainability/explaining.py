"""The story of an explanation: names, pieces, players, coalitions, scores, values."""

import logging
from collections.abc import Hashable, Mapping, MutableMapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from crag_core.context import RequestContext
from crag_core.errors import InvalidQuestion
from crag_core.explaining import (
    ExplainAsk,
    Explanation,
    MaskableEvaluator,
    Method,
    Name,
    NameFinder,
    Side,
    TokenValue,
    Unit,
)
from crag_core.protocols import Evaluation
from explainability.classes import class_values, token_classes
from explainability.coalitions import Design
from explainability.exact import MOST_PLAYERS
from explainability.methods import design_for
from explainability.names import CapitalisedNames, without_overlap
from explainability.players import Player, kept_pieces, players_of, tree_of

ADDITIVITY_TOLERANCE = 1e-3
"""Of the score: values that miss it by more are not what they claim to be."""

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class ScoreExplainer:
    """An `Explainer` over an evaluator; `finder` finds names beside those that the rules find.

    `known` remembers explanations, by evaluator and ask; `None` remembers nothing.
    """

    evaluator: MaskableEvaluator
    finder: NameFinder | None = None
    known: MutableMapping[Hashable, Explanation] | None = field(default_factory=dict)

    async def explain(self, ctx: RequestContext, ask: ExplainAsk) -> Explanation:
        """The explanation of a pair's score; all masked inputs are evaluated together.

        Raises InvalidQuestion when there is no passage to read, or too much for `exact`; and whatever
        the evaluator raises.
        """
        evaluation = await self.evaluator.evaluate(ctx, ask.question, [ask.passage])
        if self.known is None:
            return await self._explained(ctx, ask, evaluation)
        key = (evaluation.evaluator_id, ask)
        explanation = self.known.get(key)
        if explanation is None:
            explanation = self.known[key] = await self._explained(ctx, ask, evaluation)
        return explanation

    async def _explained(
        self, ctx: RequestContext, ask: ExplainAsk, evaluation: Evaluation
    ) -> Explanation:
        (score,) = evaluation.scores
        if score is None:
            raise InvalidQuestion("the passage holds nothing that the retrieval evaluator can read")
        read = await self.evaluator.pieces(ctx, ask.question, ask.passage)
        texts = {
            Side.QUESTION: ask.question,
            Side.TITLE: ask.passage.title,
            Side.PASSAGE: ask.passage.text,
        }
        asked = self.names(ask.question)
        names = {Side.QUESTION: asked}
        if ask.unit is Unit.ENTITY:
            names |= {side: self.names(texts[side]) for side in (Side.TITLE, Side.PASSAGE)}
        players = players_of(read.pieces, ask.unit, texts, names)
        method, design = _design(players, texts, ask)
        kept = kept_pieces(design.coalitions, players, len(read.pieces))
        scores = np.array(await self.evaluator.evaluate_masked(ctx, ask.question, ask.passage, kept))
        solved = design.solve(scores)
        base_value = float(scores[0])
        error = abs(base_value + float(solved.values.sum()) - score)
        if error > ADDITIVITY_TOLERANCE * max(1.0, abs(score)):
            _log.warning("an explanation misses its score %g by %g", score, error)
        errors = solved.standard_errors
        classes = token_classes(players, ask.question, f"{ask.passage.title} {ask.passage.text}", asked)
        return Explanation(
            score=score,
            base_value=base_value,
            tokens=tuple(
                TokenValue(player.text, player.side, player.start, player.end, float(value))
                for player, value in zip(players, solved.values, strict=True)
            ),
            classes=class_values(classes, solved.values),
            evaluations=len(kept),
            method=method,
            unit=ask.unit,
            additivity_error=error,
            standard_error=None if errors is None else float(np.sqrt((errors**2).mean())),
            truncated=read.truncated,
            evaluator_id=evaluation.evaluator_id,
        )

    def names(self, text: str) -> Sequence[Name]:
        """The names in a text: the recogniser's, then those that only the rules find."""
        recognised = self.finder.names(text) if self.finder is not None else ()
        return without_overlap([*recognised, *CapitalisedNames().names(text)])


def _design(
    players: Sequence[Player], texts: Mapping[Side, str], ask: ExplainAsk
) -> tuple[Method, Design]:
    if ask.method is Method.EXACT and len(players) > MOST_PLAYERS:
        raise InvalidQuestion(
            f"method `exact` takes {MOST_PLAYERS} tokens at most, and this pair has {len(players)}: "
            "take a larger unit, or another method"
        )
    return design_for(tree_of(players, texts), ask.method, ask.max_evaluations, ask.seed)
