"""The graph of explanations: the evaluator, asked on its least urgent lane."""

from crag_core.explaining import Explanation, MaskableEvaluator
from deployments.messages import ExplainRequest
from deployments.settings import ExplainSettings


class ExplainGraph:
    """Explains scores token by token; remembers what it has explained, if the settings want it."""

    def __init__(self, evaluator: MaskableEvaluator, settings: ExplainSettings) -> None:
        """Takes the evaluator's client; raises SettingsError when the entity recogniser is missing."""
        # imported here: the node that builds the application need not load what only a replica uses
        from cachetools import LRUCache

        from deployments.backends.reading.entities import SpacyEntities
        from explainability.explaining import ScoreExplainer

        finder = SpacyEntities(settings.entities) if settings.entities is not None else None
        self._explainer = ScoreExplainer(
            evaluator, finder, LRUCache(settings.remembered) if settings.remembered else None
        )

    async def explain(self, request: ExplainRequest) -> Explanation:
        """The explanation of one question and passage."""
        return await self._explainer.explain(request.context.localize(), request.ask)
