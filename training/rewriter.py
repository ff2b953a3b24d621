"""The sub-question rewriter: a Flan-T5 or another sequence-to-sequence model, fine-tuned.

Defaults are CompactRAG's (Yang et al. 2026): 5e-5, 5 epochs, batches of 16, 128 tokens read and 64
written. The padding of labels counts for nothing in the loss, which it would otherwise dominate.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from statistics import mean
from typing import Any

import torch
from transformers import AutoModelForSeq2SeqLM, AutoTokenizer, DataCollatorForSeq2Seq

from crag_core.compact.grounding import ground_by_rule, is_faithful
from crag_core.compact.types import Rewriting
from crag_core.errors import SettingsError
from crag_core.metrics import exact_match, f1_score
from deployments.backends.model_folder import tokenizer_file
from deployments.backends.reading.hop_models import TextModel
from deployments.backends.reading.question_rewriter import BeamRewriter, model_input
from deployments.settings import RewriterSettings
from training.hop_examples import RewriteExample
from training.hop_training import Encoded, HopRecipe, Metrics, in_turns

MAX_NEW_TOKENS = 64


@dataclass(frozen=True)
class RewriterTask:
    """What training a rewriter takes; a `HopTask`."""

    base: Path
    recipe: HopRecipe

    @property
    def best(self) -> str:
        """Token F1 with the question as it should have been written."""
        return "f1"

    @cached_property
    def model(self) -> Any:
        """The base; raises SettingsError when it holds no sequence-to-sequence model."""
        try:
            return AutoModelForSeq2SeqLM.from_pretrained(
                self.base, trust_remote_code=False, dtype=torch.float32
            )
        except (OSError, ValueError, RuntimeError, KeyError) as error:
            raise SettingsError(f"{self.base} holds no model that can be fine-tuned: {error}") from error

    @cached_property
    def _tokenizer(self) -> Any:
        tokenizer_file(self.base)
        return AutoTokenizer.from_pretrained(self.base, trust_remote_code=False)

    @cached_property
    def _collator(self) -> DataCollatorForSeq2Seq:
        return DataCollatorForSeq2Seq(self._tokenizer, self.model)  # pads labels with -100

    def encoded(self, examples: Sequence[RewriteExample]) -> Encoded[RewriteExample]:
        """Inputs as serving writes them, and the tokens of the output."""
        read = self._tokenizer(
            [model_input(each.rewriting) for each in examples],
            max_length=self.recipe.max_tokens,
            truncation=True,
        )
        written = self._tokenizer(
            text_target=[each.output for each in examples], max_length=MAX_NEW_TOKENS, truncation=True
        )
        inputs = [
            {"input_ids": ids, "attention_mask": mask, "labels": labels}
            for ids, mask, labels in zip(
                read["input_ids"], read["attention_mask"], written["input_ids"], strict=True
            )
        ]
        return Encoded(examples, inputs)

    def collate(self, inputs: list[dict[str, Any]]) -> Mapping[str, Any]:
        """A batch, padded to its longest input and output."""
        batch: Mapping[str, Any] = self._collator(inputs)
        return batch

    def judged(self, model: Any, examples: Sequence[RewriteExample]) -> Metrics:
        """Of what would be served."""
        settings = RewriterSettings.model_validate(
            {
                "model": str(self.base),
                "max_input_tokens": self.recipe.max_tokens,
                "max_new_tokens": MAX_NEW_TOKENS,
            }
        )
        return judged_rewrites(BeamRewriter(model, self._tokenizer, settings), examples)

    def judged_by_rule(self, examples: Sequence[RewriteExample]) -> Metrics:
        """Of what is served without a model."""
        return judged_rewrites(_Rule(), examples)


class _Rule:
    """The rule as a `TextModel`."""

    def rewrite(self, rewritings: Sequence[Rewriting]) -> Sequence[str | None]:
        """The question with its reference replaced."""
        return [ground_by_rule(each.question, (each.entity,)) for each in rewritings]


def judged_rewrites(model: TextModel, examples: Sequence[RewriteExample]) -> Metrics:
    """Exact match and F1 with the output, and the share that serving would ask: faithful ones."""
    texts = in_turns(examples, lambda part: model.rewrite([each.rewriting for each in part]))
    pairs = list(zip(texts, examples, strict=True))
    return {
        "exact_match": mean(float(exact_match(text, each.output)) for text, each in pairs),
        "f1": mean(f1_score(text, each.output) for text, each in pairs),
        "faithful": mean(float(is_faithful(each.rewriting, text)) for text, each in pairs),
    }
