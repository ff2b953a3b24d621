"""The answer extractor: a RoBERTa or another encoder fine-tuned to point at answers, or to abstain.

Defaults are CompactRAG's (Yang et al. 2026): 3e-5, 3 epochs, batches of 8, 384 tokens. Windows hold
whole pairs, as serving cuts them, in the place of a stride over the text.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from statistics import mean
from typing import Any

import torch
from torch import Tensor
from transformers import AutoModelForQuestionAnswering

from crag_core.compact.protocols import EntityFinder
from crag_core.errors import SettingsError
from crag_core.metrics import exact_match, f1_score
from deployments.backends.reading.answer_extractor import SpanExtractor, Window, span_tokenizer
from deployments.backends.reading.hop_models import RuleExtractor, SpanModel
from deployments.backends.tokenization import padded_ids
from deployments.settings import ExtractorSettings
from training.hop_examples import Gold, SpanExample
from training.hop_training import Encoded, HopRecipe, Metrics, in_turns

_NO_ANSWER = (0, 0)
"""The first token, which stands for "no answer" in training as in serving."""


@dataclass(frozen=True)
class ExtractorTask:
    """What training an extractor takes; a `HopTask`. `finder` serves the rules it is compared with."""

    base: Path
    recipe: HopRecipe
    finder: EntityFinder

    @property
    def best(self) -> str:
        """As SQuAD 2.0 is judged: F1, where an abstention is right if there is no answer."""
        return "f1_of_all"

    @cached_property
    def model(self) -> Any:
        """The base with a head; raises SettingsError when it holds no encoder."""
        try:
            return AutoModelForQuestionAnswering.from_pretrained(
                self.base, trust_remote_code=False, dtype=torch.float32
            )
        except (OSError, ValueError, RuntimeError, KeyError) as error:
            raise SettingsError(f"{self.base} holds no model that can be fine-tuned: {error}") from error

    @cached_property
    def _tokenizer(self) -> Any:
        return span_tokenizer(self.base)

    def encoded(self, examples: Sequence[SpanExample]) -> Encoded[SpanExample]:
        """Windows with the tokens of the answer; those whose tokens do not say it are left out."""
        windows = self._serving(self.model).windows([example.reading for example in examples])
        inputs = []
        for window in windows:
            span = _labels(window, examples[window.reading].gold)
            if span is not None:
                inputs.append({"ids": window.ids, "start": span[0], "end": span[1]})
        return Encoded(examples, inputs, left_out=len(windows) - len(inputs))

    def collate(self, inputs: list[dict[str, Any]]) -> dict[str, Tensor]:
        """A batch, padded to its longest window."""
        rows = [each["ids"] for each in inputs]
        ids, mask = padded_ids(rows, self._tokenizer.pad_token_id or 0, torch.device("cpu"))
        return {
            "input_ids": ids,
            "attention_mask": mask,
            "start_positions": torch.tensor([each["start"] for each in inputs]),
            "end_positions": torch.tensor([each["end"] for each in inputs]),
        }

    def judged(self, model: Any, examples: Sequence[SpanExample]) -> Metrics:
        """Of what would be served."""
        return judged_spans(self._serving(model), examples)

    def judged_by_rule(self, examples: Sequence[SpanExample]) -> Metrics:
        """Of what is served without a model."""
        return judged_spans(RuleExtractor(self.finder), examples)

    def _serving(self, model: Any) -> SpanExtractor:
        settings = ExtractorSettings.model_validate(
            {"model": str(self.base), "max_tokens": self.recipe.max_tokens}
        )
        return SpanExtractor(model, self._tokenizer, settings)


def judged_spans(model: SpanModel, examples: Sequence[SpanExample]) -> Metrics:
    """Exact match and F1 where there is an answer, abstentions where there is none, F1 of all."""
    found = in_turns(examples, lambda part: model.extract([each.reading for each in part]))
    texts = ["" if answer is None else answer.text for answer in found]
    judged = [(text, each.gold.text) for text, each in zip(texts, examples, strict=True) if each.gold]
    abstained = [
        float(not text) for text, each in zip(texts, examples, strict=True) if each.gold is None
    ]
    f1 = [f1_score(text, gold) for text, gold in judged]
    metrics = {"f1_of_all": mean([*f1, *abstained])}
    if judged:
        metrics |= {"exact_match": mean(float(exact_match(*pair)) for pair in judged), "f1": mean(f1)}
    if abstained:
        metrics["abstained"] = mean(abstained)
    return metrics


def _labels(window: Window, gold: Gold | None) -> tuple[int, int] | None:
    """The first and the last token of the answer; `None` when they would say something else."""
    place = next((each for each in window.answers if gold and each.pair == gold.pair), None)
    if gold is None or place is None:
        return _NO_ANSWER
    begin = place.begin + gold.start
    end = begin + len(gold.text)
    inside = [
        token
        for token in range(place.first, place.past)
        if window.offsets[token][0] < end and window.offsets[token][1] > begin
    ]
    if not inside or window.text(inside[0], inside[-1]) != gold.text.strip():
        return None
    return inside[0], inside[-1]
