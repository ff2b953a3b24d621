"""Extractor and rewriter as configured: models, or the rules that stand in for them."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from crag_core.compact.answer_rules import extract_by_rule
from crag_core.compact.protocols import EntityFinder
from crag_core.compact.types import ExtractedAnswer, Reading, Rewriting
from deployments.settings import HopReaderSettings


class SpanModel(Protocol):
    """One answer per reading, in order, or `None`."""

    def extract(self, readings: Sequence[Reading]) -> Sequence[ExtractedAnswer | None]: ...


class TextModel(Protocol):
    """One text per rewriting, in order, or `None`."""

    def rewrite(self, rewritings: Sequence[Rewriting]) -> Sequence[str | None]: ...


@dataclass(frozen=True, slots=True)
class RuleExtractor:
    """Extraction by rule, over named entities."""

    finder: EntityFinder

    def extract(self, readings: Sequence[Reading]) -> Sequence[ExtractedAnswer | None]:
        """As `extract_by_rule`."""
        return extract_by_rule(readings, self.finder)


@dataclass(frozen=True, slots=True)
class HopModels:
    """What the hop reader has; without a rewriter, every reference is replaced by rule."""

    extractor: SpanModel
    rewriter: TextModel | None

    @classmethod
    def open(cls, settings: HopReaderSettings) -> "HopModels":
        """Load what the settings name; spaCy is loaded only where the rules need it."""
        # imported here: the rules need no torch, the models no spaCy
        extractor: SpanModel
        if settings.extractor is None:
            from deployments.backends.reading.entities import SpacyEntities

            extractor = RuleExtractor(SpacyEntities(settings.entities))
        else:
            from deployments.backends.reading.answer_extractor import SpanExtractor

            extractor = SpanExtractor.open(settings.extractor)
        if settings.rewriter is None:
            return cls(extractor, None)
        from deployments.backends.reading.question_rewriter import BeamRewriter

        return cls(extractor, BeamRewriter.open(settings.rewriter))

    def extract(self, readings: Sequence[Reading]) -> Sequence[ExtractedAnswer | None]:
        """One answer per reading, in order."""
        return self.extractor.extract(readings)

    def rewrite(self, rewritings: Sequence[Rewriting]) -> Sequence[str | None]:
        """One text per rewriting, in order."""
        return [None] * len(rewritings) if self.rewriter is None else self.rewriter.rewrite(rewritings)
